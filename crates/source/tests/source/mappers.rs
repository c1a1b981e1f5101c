//! Object-relational mappers: writes that no SQL in the source shows are found, and other objects are left alone.

use crate::support::writes::each_that_writes_is_found;

#[test]
fn entities_that_java_changes_are_written_at_commit() {
    each_that_writes_is_found(&[(
        "a.java",
        r#"
package shop;
import jakarta.persistence.*;
@Entity @Table(name = "account")
class Account {
    @Id Long id; private int balance; @Getter @Setter int owner; List<Line> lines;
    Account() {}
    Account(int n) { this.balance = n; }
    int getBalance() { return balance; }
    List<Line> getLines() { return lines; }
    void setBalance(int n) { balance = n; }
    void withdraw(int n) { if (balance < n) throw new IllegalStateException(); balance -= n; }
    void withdrawAll() { withdraw(balance); }
    String label() { String balance = "x"; balance = balance + id; return balance; }
}
class AccountDto { int balance; void setBalance(int n) { balance = n; } }
interface Accounts extends JpaRepository<Account, Long> {}
class Bank {
    @PersistenceContext EntityManager em; Accounts accounts; SessionFactory factory;
    @Transactional public void writesBySetter(long id, int n) { Account a = em.find(Account.class, id); a.setBalance(n); }
    @Transactional public void writesByMethod(long id, int n) { em.find(Account.class, id).withdraw(n); }
    @Transactional public void writesByMethodOfMethod(long id) { em.find(Account.class, id).withdrawAll(); }
    @Transactional public void writesByField(long id, int n) { Account a = accounts.findById(id).orElseThrow(); a.balance -= n; }
    @Transactional public void writesByVar(long id, int n) { var a = accounts.findById(id).orElseThrow(); a.setBalance(n); }
    @Transactional public void writesByLambda(long id, int n) { accounts.findById(id).ifPresent(a -> a.setOwner(n)); }
    @Transactional public void writesInLoop(int n) { for (Account a : accounts.findAll()) { a.setOwner(n); } }
    @Transactional public void writesInLoopOfVar(int n) { for (var a : accounts.findAll()) a.setOwner(n); }
    @Transactional public void writesByCollection(long id) { Account a = accounts.getReferenceById(id); a.getLines().add(new Line()); }
    @Transactional public void writesByHelper(long id, int n) { change(accounts.getReferenceById(id), n); }
    private void change(Account a, int n) { a.setBalance(n); }
    public void writesInSession(long id, int n) {
        Account a = factory.getCurrentSession().load(Account.class, id); a.setOwner(n); }
    public void writesInOpenedSession(long id, int n) {
        Session session = factory.openSession(); Transaction tx = session.beginTransaction();
        Account a = session.load(Account.class, id); a.setOwner(n); tx.commit(); }
    @Transactional public void writesOfXml(long id) { Ledger l = em.getReference(Ledger.class, id); l.setOwner(1); }
    public void writesBySave(Account a) { accounts.save(a); }
    @Transactional(readOnly = true) public AccountDto readsToDto(long id) {
        Account a = accounts.findById(id).orElseThrow(); AccountDto d = new AccountDto(); d.setBalance(a.getBalance()); return d; }
    @Transactional public AccountDto readsToOtherDto(long id) {
        var a = accounts.findById(id).orElseThrow(); var d = new AccountDto(); d.setBalance(a.getBalance()); return d; }
    @Transactional public AccountDto readsToMappedDto(long id) {
        return accounts.findById(id).map(a -> { AccountDto d = new AccountDto(); d.setBalance(a.getBalance()); return d; }).get(); }
    @Transactional public String readsLabel(long id) { return em.find(Account.class, id).label(); }
    public Account readsNothing(int n) { Account a = new Account(); a.setBalance(n); return a; }
}
"#,
    )]);
}

#[test]
fn plain_objects_of_java_are_no_entities() {
    each_that_writes_is_found(&[(
        "a.java",
        r#"
class Account { int balance; void setBalance(int n) { balance = n; } }
class Bank {
    Connection c; Accounts accounts;
    @Transactional public Account readsByJdbc(long id) throws Exception {
        var s = c.prepareStatement("SELECT balance FROM account WHERE id = ?"); s.setLong(1, id); var r = s.executeQuery();
        r.next(); Account a = new Account(); a.setBalance(r.getInt(1)); return a; }
    @Transactional public void readsAndChangesAnObject(Account a) { a.setBalance(3); }
}
"#,
    )]);
}

#[test]
fn sessions_of_python_write_back_what_was_changed() {
    each_that_writes_is_found(&[(
        "a.py",
        r#"
from sqlalchemy.orm import DeclarativeBase, Session
from flask_sqlalchemy import SQLAlchemy
db = SQLAlchemy()
class Base(DeclarativeBase): pass
class Account(Base):
    __tablename__ = "account"
    balance: Mapped[int]
    def withdraw(self, n):
        self.balance -= n
    def label(self):
        return str(self.balance)
class Settings:
    def __init__(self):
        self.debug = False
def writes_in_a_block(engine, id, n):
    with Session(engine) as s, s.begin():
        a = s.scalars(select(Account).where(Account.id == id)).one()
        a.balance = a.balance - n
def writes_by_commit(engine, id, n):
    with Session(engine) as s:
        a = s.query(Account).filter_by(id=id).one()
        a.balance -= n
        s.commit()
def writes_by_method(id, n):
    Account.query.get(id).withdraw(n)
    db.session.commit()
def writes_what_others_loaded(user, n):
    user.spend(n)
    db.session.commit()
def reads_label(id):
    return Account.query.get(id).label()
def reads_and_configures(settings: Settings):
    settings.debug = True
"#,
    )]);
}

#[test]
fn active_records_write_themselves() {
    each_that_writes_is_found(&[(
        "a.py",
        r#"
from django.db import models
from PIL import Image
class Account(models.Model):
    balance = models.IntegerField()
class Order(models.Model):
    total = models.IntegerField()
def writes_by_save(id, n):
    a = Account.objects.get(pk=id)
    a.balance -= n
    a.save()
def writes_some_fields(id, n):
    a = get_object_or_404(Account, pk=id)
    a.save(update_fields=["balance"])
def reads_balance(id):
    return Account.objects.get(pk=id).balance
def reads_nothing_and_draws(path):
    image = Image.open(path)
    image.save(path + ".png")
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.py",
        r#"
from django.db import models
class Account(models.Model):
    def save(self, *args, **kwargs):
        self.full_clean()
        super().save(*args, **kwargs)
def writes_by_own_save(id):
    a = Account.objects.get(pk=id)
    a.save()
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.php",
        r#"<?php
use Illuminate\Database\Eloquent\Model;
class Account extends Model { }
class Bank {
    function writesBySave($id, $n) { $a = Account::find($id); $a->balance = $a->balance - $n; $a->save(); }
    function writesByDecrement($id, $n) { Account::find($id)->decrement('balance', $n); }
    function writesByQuery($id) { Account::where('id', $id)->update(['balance' => 0]); }
    function writesByUpdate($id) { $a = Account::findOrFail($id); $a->update(['balance' => 0]); }
    function readsBalance($id) { return Account::find($id)->balance; }
}
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.js",
        r#"
const { Sequelize } = require('sequelize');
const Account = sequelize.define('account', { balance: Sequelize.INTEGER });
exports.writesBySave = async (id, n) => { const a = await Account.findByPk(id); a.balance -= n; await a.save(); };
exports.writesByUpdate = async (id) => { await Account.update({ balance: 0 }, { where: { id } }); };
exports.writesByInstance = async (id) => { const a = await Account.findOne({ where: { id } }); await a.update({ balance: 0 }); };
exports.readsAll = async () => Account.findAll();
exports.readsNothingAndStops = (stream) => { stream.destroy(); };
exports.readsNothingAndDraws = (canvas) => { canvas.save(); canvas.restore(); };
"#,
    )]);
    each_that_writes_is_found(&[(
        "a.ts",
        r#"
import { Entity, Repository } from 'typeorm';
@Entity() export class Account { @PrimaryColumn() id: number; @Column() balance: number; }
export class Bank {
    constructor(private readonly accounts: Repository<Account>) {}
    async writesBySave(id: number) { const a = await this.accounts.findOneBy({ id }); await this.accounts.save(a); }
    async writesByUpdate(id: number) { await this.accounts.update({ id }, { balance: 0 }); }
    async writesByQuery(id: number) { const a = await Account.query().findById(id); await a.$query().patch({ balance: 0 }); }
    async readsOne(id: number) { return this.accounts.findOneBy({ id }); }
}
"#,
    )]);
}

/// Without a mapper in the program, the same names are other things.
#[test]
fn programs_without_a_mapper_save_other_things() {
    each_that_writes_is_found(&[
        (
            "a.py",
            "def reads_nothing_and_saves(config):\n    config.save()\n",
        ),
        (
            "a.js",
            "exports.readsNothingAndSaves = async (draft) => { await draft.save(); };\n",
        ),
        (
            "a.php",
            "<?php\nfunction reads_nothing_and_saves($form) { $form->save(); }\n",
        ),
    ]);
}
