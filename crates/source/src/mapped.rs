//! Object-relational mappers in a program: which classes they map to tables, and which languages use one.
//!
//! A mapper generates SQL that is not in the source. Calls by which it writes have names that other things use as
//! well (`save`, `update`), so such a call counts by itself only in a program that uses a mapper. The evidence is an
//! import, a class that is declared as an entity, or a method that only mappers have.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::{
    declarations::{Declarations, DeclaredClass, Source},
    language::Language,
    objects::{Classes, Objects},
    syntax::{Expression, ExpressionKind, Statement, StatementKind},
    traverse::{expression, expressions},
};

/// Texts that only programs with a mapper contain.
const OF_JAVA: &str = "jakarta.persistence javax.persistence org.hibernate org.springframework.data.jpa \
    org.springframework.data.jdbc org.springframework.data.r2dbc io.quarkus.hibernate io.ebean org.javalite \
    io.micronaut.data JpaRepository CrudRepository org.apache.ibatis @Entity EntityManager";
const OF_PYTHON: &str = "django peewee pony.orm tortoise .objects.get( .objects.filter( \
    get_object_or_404( objects.create(";
const OF_SCRIPTS: &str = "sequelize typeorm objection mikro-orm bookshelf @prisma/client drizzle-orm waterline \
    adonisjs/lucid .findByPk( .findOneBy( .findOneByOrFail( .findOneOrFail( .findOrCreate( .$query(";
const OF_PHP: &str = "Illuminate\\Database Doctrine\\ Cake\\ORM yii\\db ActiveRecord Phalcon\\Mvc\\Model \
    Propel\\ RedBean App\\Models ::findOrFail( ::where( ::query() ->firstOrFail(";
const OF_GO: &str =
    "gorm.io/ jinzhu/gorm entgo.io/ uptrace/bun xorm.io/ beego/beego go-pg/pg sqlboiler";

/// Base classes that only models of a mapper have, as PHP names them.
const PHP_MODEL: &str = "extends Model";

/// Texts of mappers that write changed objects back without a call that names them.
const WRITING_BACK: &str = "sqlalchemy sqlmodel pony.orm";

/// Base classes of entities, where a mapper is used.
const BASES: [&str; 14] = [
    "Model",
    "ActiveRecord",
    "ApplicationRecord",
    "Authenticatable",
    "Eloquent",
    "Pivot",
    "BaseEntity",
    "BaseModel",
    "PanacheEntity",
    "PanacheEntityBase",
    "DeclarativeBase",
    "MappedAsDataclass",
    "SQLModel",
    "Base",
];

/// The mappers of a program.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    /// The classes that are mapped to tables.
    entities: BTreeSet<Rc<str>>,
    /// The languages that use a mapper.
    used: BTreeSet<Language>,
    /// The languages with a mapper that writes changed objects back.
    writing_back: BTreeSet<Language>,
}

/// JavaScript and TypeScript share their mappers.
fn family(language: Language) -> Language {
    match language {
        Language::JavaScript => Language::TypeScript,
        other => other,
    }
}

fn evidence(language: Language) -> &'static str {
    match language {
        Language::Java => OF_JAVA,
        Language::Python => OF_PYTHON,
        Language::Go => OF_GO,
        Language::TypeScript | Language::JavaScript => OF_SCRIPTS,
        Language::Php => OF_PHP,
    }
}

impl Mapped {
    /// Finds the mappers of a program.
    pub(crate) fn new(declarations: &Declarations<'_>, objects: &Objects) -> Mapped {
        let mut found = Mapped::default();
        for source in declarations.sources {
            let contains = |words: &str| words.split(' ').any(|word| source.text.contains(word));
            let has_model = source.language == Language::Php && source.text.contains(PHP_MODEL);
            if has_model || contains(evidence(source.language)) {
                found.used.insert(family(source.language));
            }
            let writes_back = match source.language {
                Language::Java => contains(OF_JAVA),
                Language::Python => contains(WRITING_BACK),
                _ => false,
            };
            if writes_back {
                found.writing_back.insert(source.language);
            }
        }
        for class in &declarations.classes {
            if found.is_mapped(class, objects) {
                found.entities.insert(class.name.into());
            }
        }
        for source in declarations.sources {
            found.add_defined(source);
        }
        for declared in &declarations.functions {
            let source = &declarations.sources[declared.file];
            if source.language == Language::Java {
                found.add_loaded(source, &declared.function.body);
            }
        }
        found
    }

    /// Whether a class is declared as an entity.
    fn is_mapped(&self, class: &DeclaredClass<'_>, objects: &Objects) -> bool {
        let of_class = Classes::from([class.name.into()]);
        let has_base = || BASES.iter().any(|base| objects.are_of(&of_class, base));
        let annotated = class.annotations.iter().any(|annotation| {
            let name = annotation.last_name().unwrap_or_default();
            let name = name.trim_start_matches('@');
            matches!(name, "Entity" | "MappedSuperclass" | "Embeddable" | "Table")
        });
        let has_mapper = self.is_used(class.language) || self.writes_back(class.language);
        annotated || has_mapper && (names_its_table(class.body) || has_base())
    }

    /// Adds models that are defined by a call: `const Account = sequelize.define('account', …)`.
    fn add_defined(&mut self, source: &Source) {
        if family(source.language) != Language::TypeScript || !self.is_used(source.language) {
            return;
        }
        for statement in &source.module.body {
            if let StatementKind::Expression(value) = &statement.kind
                && let ExpressionKind::Assign { target, value, .. } = &value.kind
                && let ExpressionKind::Call { callee, .. } = &value.kind
                && callee.last_name() == Some("define")
                && let Some(name) = target.last_name()
            {
                self.entities.insert(name.into());
            }
        }
    }

    /// Adds classes that are loaded by their names, and mapped elsewhere: `session.get(Account.class, id)`.
    fn add_loaded(&mut self, source: &Source, body: &[Statement]) {
        if !self.writes_back(Language::Java) {
            return;
        }
        expressions(body, false, &mut |value| {
            let ExpressionKind::Call { callee, arguments } = &value.kind else {
                return;
            };
            let ExpressionKind::Member(on, name) = &callee.kind else {
                return;
            };
            let loads = matches!(
                name.as_str(),
                "find" | "get" | "load" | "getReference" | "byId" | "createQuery"
            );
            if !loads || !on.last_name().is_some_and(is_context) {
                return;
            }
            for argument in arguments {
                let text = source.text.get(argument.value.range.clone());
                let class = text.and_then(|text| text.strip_suffix(".class"));
                if let Some(class) = class {
                    let class = class.rsplit('.').next().unwrap_or(class);
                    self.entities.insert(class.into());
                }
            }
        });
    }

    /// Whether programs in a language use a mapper.
    pub(crate) fn is_used(&self, language: Language) -> bool {
        self.used.contains(&family(language))
    }

    /// Whether programs in a language use a mapper that writes changed objects back.
    pub(crate) fn writes_back(&self, language: Language) -> bool {
        self.writing_back.contains(&language)
    }

    /// Whether a class is mapped to a table.
    pub(crate) fn is_entity(&self, class: &str) -> bool {
        self.entities.contains(class)
    }

    /// The first of these classes that is mapped to a table.
    pub(crate) fn entity_among<'c>(&self, classes: &'c Classes) -> Option<&'c str> {
        let mut all = classes.iter().map(|class| &**class);
        all.find(|class| self.entities.contains(*class))
    }

    /// The entity class that an expression names anywhere within: `session.get(Account, id)`.
    pub(crate) fn entity_named<'e>(&self, value: &'e Expression) -> Option<&'e str> {
        let mut found = None;
        expression(value, false, &mut |part| {
            if let ExpressionKind::Name(name) | ExpressionKind::Member(_, name) = &part.kind
                && self.entities.contains(name.as_str())
            {
                found = found.or(Some(name.as_str()));
            }
        });
        found
    }
}

/// Whether a name is usual for a persistence context of Java: `em`, `entityManager`, `getCurrentSession()`.
pub(crate) fn is_context(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    matches!(name.as_str(), "em" | "entities")
        || name.ends_with("entitymanager")
        || name.ends_with("session") && !name.ends_with("httpsession")
}

/// Whether the body of a class names its table: `__tablename__ = "account"`.
fn names_its_table(body: &[Statement]) -> bool {
    body.iter().any(|statement| match &statement.kind {
        StatementKind::Expression(value) => match &value.kind {
            ExpressionKind::Assign { target, .. } => {
                matches!(target.last_name(), Some("__tablename__" | "__table__"))
            }
            _ => false,
        },
        _ => false,
    })
}
