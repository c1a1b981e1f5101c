//! A ring over a database that answers as a test wants.

use std::collections::BTreeSet;

use anabranch_protocol::belt::rows::Refused;
use anabranch_protocol::belt::{Epoch, Positions, Standing, Token};

use super::*;

/// A database whose hold is open, and that aborts each attempt to close it.
struct AbortsEachPass;

impl Database for AbortsEachPass {
    fn standing(&mut self) -> Result<Standing<Changes>, Trouble> {
        let epoch = Epoch::default();
        Ok(Standing {
            epoch,
            promised: epoch,
            members: vec![ServerId(0), ServerId(1)],
            received: Hop(1),
            passed: Hop(0),
            token: Token {
                epoch,
                hop: Hop(1),
                updates: Vec::new(),
                applied: BTreeMap::new(),
                wishes: BTreeSet::new(),
            },
            applied: Positions::new(),
            outbox: Vec::new(),
        })
    }

    fn receive(&mut self, _: &Token<Changes>) -> Result<Result<(), Refused>, Trouble> {
        Ok(Err(Refused::NotOpen(Hop(1))))
    }

    fn pass(
        &mut self,
        _: Hop,
        _: &BTreeSet<ServerId>,
    ) -> Result<Result<Token<Changes>, Refused>, Trouble> {
        Err(Trouble::Aborted("another transaction".to_owned()))
    }

    fn promise(&mut self, _: Epoch) -> Result<Option<Standing<Changes>>, Trouble> {
        Ok(None)
    }

    fn install(&mut self, _: Epoch, _: &[ServerId]) -> Result<bool, Trouble> {
        Ok(false)
    }
}

/// A database of a ring of one, which is reached late.
struct Late;

impl Database for Late {
    fn standing(&mut self) -> Result<Standing<Changes>, Trouble> {
        std::thread::sleep(Duration::from_millis(300));
        let standing = AbortsEachPass.standing()?;
        Ok(Standing {
            members: vec![ServerId(0)],
            ..standing
        })
    }

    fn receive(&mut self, token: &Token<Changes>) -> Result<Result<(), Refused>, Trouble> {
        AbortsEachPass.receive(token)
    }

    fn pass(
        &mut self,
        hold: Hop,
        wishes: &BTreeSet<ServerId>,
    ) -> Result<Result<Token<Changes>, Refused>, Trouble> {
        AbortsEachPass.pass(hold, wishes)
    }

    fn promise(&mut self, epoch: Epoch) -> Result<Option<Standing<Changes>>, Trouble> {
        AbortsEachPass.promise(epoch)
    }

    fn install(&mut self, epoch: Epoch, members: &[ServerId]) -> Result<bool, Trouble> {
        AbortsEachPass.install(epoch, members)
    }
}

/// A session that gives up in the moment in which its turn comes.
#[test]
fn a_turn_that_is_not_taken_ends() {
    let membership = Membership {
        ring: "here".to_owned(),
        own: ServerId(0),
        others: Vec::new(),
    };
    let ring = Ring::start(
        &membership,
        TcpListener::bind(("127.0.0.1", 0)).expect("a port"),
        Box::new(|| Ok(Late)),
        RingOptions {
            operation_max: Duration::from_secs(5),
            ..RingOptions::default()
        },
        |_| {},
    );
    let ring = ring.expect("its threads begin");
    let gives_up = || {
        // The turn comes meanwhile.
        std::thread::sleep(Duration::from_secs(1));
        true
    };
    assert!(matches!(ring.turn_unless(gives_up), Err(NoTurn::Cancelled)));
    let turn = ring.turn().expect("the hold waits for no operation");
    turn.end(false);
}

/// A transaction that the database aborts without end needs no more of the stack each time, and keeps neither deadlines
/// nor the end of the ring waiting.
#[test]
fn a_database_that_aborts_without_end_holds_up_nothing_else() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    // Nothing listens there.
    let other = TcpListener::bind(("127.0.0.1", 0)).and_then(|other| other.local_addr());
    let membership = Membership {
        ring: "here,there".to_owned(),
        own: ServerId(0),
        others: vec![(ServerId(1), other.expect("an address"))],
    };
    let ring = Ring::start(
        &membership,
        listener,
        Box::new(|| Ok(AbortsEachPass)),
        RingOptions {
            operation_max: Duration::from_secs(1),
            ..RingOptions::default()
        },
        |_| {},
    );
    let ring = ring.expect("its threads begin");
    assert!(matches!(ring.turn(), Err(NoTurn::Expired)));
    let waits = ring.waits_for(|_| "there").expect("it waits");
    assert!(
        waits.starts_with("its database, to pass hop 1, for "),
        "{waits}"
    );
    drop(ring);
}
