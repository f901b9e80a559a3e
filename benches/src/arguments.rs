//! The command line.

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Arguments {
    /// The first word.
    pub command: String,
    /// JSON lines instead of a table.
    pub json: bool,
    /// Tiny counts: does it work at all.
    pub quick: bool,
    /// Numbers of producers, ascending; empty: the command's default.
    pub producers: Vec<usize>,
    /// Seconds that one repetition of one row takes.
    pub seconds: f64,
    /// Repetitions of a row; its figure is their median.
    pub repetitions: usize,
    /// Only these peers; empty: all.
    pub peers: Vec<String>,
    /// Events of an export.
    pub events: usize,
    /// What a child is to do.
    pub words: Vec<String>,
}

const USAGE: &str = "usage: strandline-benches append|instructions|readings|export [--json] [--quick] [--producers 1,2,15] \
    [--seconds 0.1] [--repetitions 5] [--peers strandline,rtrb] [--events 1000000]";

impl Arguments {
    /// Parses without any I/O.
    ///
    /// # Errors
    /// The usage, and what was wrong.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Self {
            command: String::new(),
            json: false,
            quick: false,
            producers: Vec::new(),
            seconds: 0.1,
            repetitions: 5,
            peers: Vec::new(),
            events: 1_000_000,
            words: Vec::new(),
        };
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let mut value = |what: &str| {
                words
                    .next()
                    .ok_or_else(|| format!("{word}: expected {what}\n{USAGE}"))
            };
            let bad = |value: &str, what: &str| format!("{value}: expected {what}\n{USAGE}");
            match word.as_str() {
                "--json" => parsed.json = true,
                "--quick" => parsed.quick = true,
                "--producers" => {
                    let list = value("a list of numbers")?;
                    let numbers: Result<Vec<usize>, _> = list.split(',').map(str::parse).collect();
                    parsed.producers = numbers
                        .ok()
                        .filter(|numbers| numbers.iter().all(|&number| (1..=256).contains(&number)))
                        .ok_or_else(|| bad(&list, "numbers from 1 to 256"))?;
                    parsed.producers.sort_unstable();
                }
                "--seconds" => {
                    let text = value("seconds")?;
                    parsed.seconds = text
                        .parse()
                        .ok()
                        .filter(|seconds| *seconds > 0.0 && *seconds <= 60.0)
                        .ok_or_else(|| bad(&text, "seconds up to 60"))?;
                }
                "--repetitions" => {
                    let text = value("a number")?;
                    parsed.repetitions = text
                        .parse()
                        .ok()
                        .filter(|count| (1..=100).contains(count))
                        .ok_or_else(|| bad(&text, "a number from 1 to 100"))?;
                }
                "--events" => {
                    let text = value("a number")?;
                    parsed.events = text
                        .parse()
                        .ok()
                        .filter(|count| (100..=100_000_000).contains(count))
                        .ok_or_else(|| bad(&text, "a number from 100 to 100,000,000"))?;
                }
                "--peers" => {
                    parsed.peers = value("names")?.split(',').map(str::to_owned).collect();
                }
                flag if flag.starts_with("--") => return Err(bad(flag, "a known flag")),
                _ if parsed.command.is_empty() => parsed.command = word,
                _ => parsed.words.push(word),
            }
        }
        if parsed.command.is_empty() {
            return Err(USAGE.to_owned());
        }
        if parsed.quick {
            parsed.seconds = parsed.seconds.min(0.002);
            parsed.repetitions = 1;
            parsed.events = parsed.events.min(20_000);
            if parsed.producers.is_empty() {
                parsed.producers = vec![1, 2];
            }
        }
        Ok(parsed)
    }

    /// True when a peer's rows are asked for.
    pub fn wants(&self, peer: &str) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|known| known == peer)
    }
}
