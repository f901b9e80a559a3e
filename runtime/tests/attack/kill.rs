//! Goal: after SIGKILL at any moment the region opens, and what is in it is whole, a prefix of what each thread wrote,
//! with its names. Method: a child with three appending threads is killed at a random moment, 50 times
//! (`STRANDLINE_KILLS` says otherwise).

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use strandline::record::Kind;
use strandline::{Status, Trace};

use crate::harness::{self, File, Outcome};
use crate::work::{self, Random, number};

/// Most rounds of one thread: their records fit the budget, so that nothing is dropped and every gap is a fault.
const ROUNDS_MAX: u64 = 25_000;

pub fn killed_at_random_moments() -> Outcome {
    let kills =
        std::env::var("STRANDLINE_KILLS").map_or(50, |text| text.parse().expect("a number"));
    let mut random = Random(u64::from(std::process::id()));
    let (mut records, mut empty) = (0, 0);
    for kill in 0..kills {
        let file = File::new();
        let churn = kill % 2 == 1;
        let mut child = harness::child("kill", file.path())
            .env("CHURN", u8::from(churn).to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let ready = child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]);
        ready.expect("the child to become ready");
        std::thread::sleep(Duration::from_micros(random.below(15_000)));
        child.kill().expect("SIGKILL");
        child.wait().expect("a dead child");
        let trace = Trace::open(file.path()).expect("the region opens");
        // With sessions opening and closing, a source has gaps: what fell between two sessions.
        let found = work::check(&trace, !churn);
        if !churn {
            for source in 1..=3 {
                // In the order of the calls in `round`, no record without those before it.
                let order = [
                    Kind::Enqueue,
                    Kind::CopyIssue,
                    Kind::Api,
                    Kind::Dispatch,
                    Kind::Copy,
                    Kind::Mark,
                ];
                let counts = order.map(|kind| found.count(kind, source));
                assert!(
                    counts.is_sorted_by(|one, next| one >= next && *one <= counts[5] + 1),
                    "{counts:?}"
                );
            }
        }
        let sum: u64 = found.counts.values().sum();
        records += sum;
        empty += u64::from(sum == 0);
    }
    println!("  {kills} kills, {records} records, {empty} times none");
    assert!(
        empty < kills / 2 + 1,
        "most children were killed while they appended"
    );
    Outcome::Passed
}

pub fn body() -> i32 {
    let churn = harness::given("CHURN") == 1;
    // Three threads at full speed make records faster than memory comes: with all of it there from the start nothing is
    // lost, so that what is found must have no gap.
    let runtime = work::runtime(|settings| settings.prefault = true);
    work::keep_house(runtime);
    let mut session = runtime.session_open().expect("a session");
    for source in 1..=3 {
        std::thread::spawn(move || {
            for at in 1..=ROUNDS_MAX {
                work::round(runtime, number(source, at));
            }
        });
    }
    harness::say_ready();
    loop {
        if churn {
            runtime.session_close(session).expect("a close");
            session = loop {
                match runtime.session_open() {
                    Ok(session) => break session,
                    Err(Status::TooManyPending) => std::thread::yield_now(),
                    Err(other) => panic!("{other:?}"),
                }
            };
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}
