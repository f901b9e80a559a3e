//! The runtime's promises under attack, each in a process of its own where it takes one. A test that needs what the
//! machine does not give says "skipped" with the reason, never "ok".

mod harness;
mod kill;
mod work;

fn main() -> std::process::ExitCode {
    harness::main(
        &[(
            "kill::killed_at_random_moments",
            kill::killed_at_random_moments,
        )],
        &[("kill", kill::body)],
    )
}
