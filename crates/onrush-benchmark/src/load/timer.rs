//! Waking a poll in time. A poll counts in milliseconds, which is longer than most replies take.

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};

    use mio::unix::SourceFd;
    use mio::{Interest, Poll, Token};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };

    /// A timer of the system that wakes a poll.
    #[derive(Debug)]
    pub struct Timer(OwnedFd);

    impl Timer {
        /// Registers a timer with a poll under this token.
        ///
        /// # Errors
        /// The system's.
        pub fn new(poll: &Poll, token: Token) -> io::Result<Timer> {
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
            Ok(Timer(timer))
        }

        /// Wakes the poll after so many nanoseconds, at least 1, in place of what was set before.
        ///
        /// # Errors
        /// The system's.
        pub fn set(&self, after_ns: u64) -> io::Result<()> {
            let after = Timespec {
                tv_sec: (after_ns / 1_000_000_000).try_into().unwrap_or(i64::from(i32::MAX)),
                tv_nsec: (after_ns.max(1) % 1_000_000_000) as _,
            };
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: never, it_value: after })?;
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    use mio::{Poll, Token};

    /// Not available on this system: the poll's own timeout must suffice.
    #[derive(Debug)]
    pub struct Timer;

    impl Timer {
        /// # Errors
        /// None.
        pub fn new(_: &Poll, _: Token) -> io::Result<Timer> {
            Ok(Timer)
        }

        /// # Errors
        /// None.
        pub fn set(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
    }
}

pub use system::Timer;
