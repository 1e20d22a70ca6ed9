//! The few things asked of the operating system that no library here wraps.

use std::ffi::CString;
use std::io;

use onrush_engine::process::CpuTimes;
use tracing::Level;

/// Detaches from the terminal: the caller goes on in a child process with no controlling terminal and with its
/// standard streams closed; the parent ends. Call it before any thread is started.
///
/// # Errors
/// The system cannot start a process.
pub fn daemonize() -> io::Result<()> {
    // SAFETY: no other thread runs yet, so the child has everything the parent had.
    if unsafe { libc::daemon(1, 0) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Files that a server needs open beside its clients' connections: at least as many as Redis keeps, and more with many
/// workers, which have two each. Some 14 are always open; the others are for snapshots and rewrites, and for clients
/// that wait for a place.
const RESERVED_FILES_MIN: u64 = 32;
const RESERVED_FILES_ALONE: u64 = 24;
const RESERVED_FILES_PER_WORKER: u64 = 2;

/// How many clients, `wanted` at most, a server with so many workers can have within the limit of open files; raises
/// the limit if needed and possible.
pub fn clients_allowed(wanted: u64, workers: usize) -> u64 {
    let reserved = (RESERVED_FILES_ALONE + RESERVED_FILES_PER_WORKER * workers as u64).max(RESERVED_FILES_MIN);
    raise_open_files(wanted + reserved).saturating_sub(reserved).min(wanted)
}

/// Raises the limit of open files to `wanted` if possible; returns the limit.
fn raise_open_files(wanted: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place to write to.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 1024;
    }
    if limit.rlim_cur >= wanted {
        return limit.rlim_cur;
    }
    for hard in [limit.rlim_max.max(wanted), limit.rlim_max] {
        let raised = libc::rlimit { rlim_cur: wanted.min(hard), rlim_max: hard };
        // SAFETY: `raised` is a valid limit to read from.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return raised.rlim_cur;
        }
    }
    limit.rlim_cur
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail like one on a full disk; otherwise it ends the process.
pub fn survive_size_limit() {
    // SAFETY: no handler is installed; the signal is ignored from here on.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Has `end` called when the process ends in order (not by a signal).
pub fn at_exit(end: extern "C" fn()) {
    // SAFETY: `end` is a function that lives as long as the process. It is not called if there is no room for it.
    let _ = unsafe { libc::atexit(end) };
}

/// The system's log.
pub struct Syslog(());

impl Syslog {
    /// Opens it under a name; `facility` is `user` or one of `local0` to `local7`. Call it once.
    pub fn open(name: &str, facility: &str) -> Self {
        let facility = match facility.strip_prefix("local").and_then(|number| number.parse::<i32>().ok()) {
            Some(number @ 0..=7) => libc::LOG_LOCAL0 + (number << 3),
            _ => libc::LOG_USER,
        };
        let name = CString::new(name).unwrap_or_default().into_raw();
        // SAFETY: `name` ends with a zero byte and is never freed: the library keeps the pointer.
        unsafe { libc::openlog(name, libc::LOG_PID | libc::LOG_NDELAY | libc::LOG_NOWAIT, facility) };
        Self(())
    }

    /// Writes a message. Waits for the system's log.
    pub fn write(&self, level: Level, message: &str) {
        let priority = match level {
            Level::ERROR | Level::WARN => libc::LOG_WARNING,
            Level::INFO => libc::LOG_NOTICE,
            Level::DEBUG => libc::LOG_INFO,
            Level::TRACE => libc::LOG_DEBUG,
        };
        let message = CString::new(message.replace('\0', "\\0")).unwrap_or_default();
        // SAFETY: both texts end with a zero byte, and the first one asks for one text.
        unsafe { libc::syslog(priority, c"%s".as_ptr(), message.as_ptr()) };
    }
}

/// Whether there is a process of this number.
pub fn is_alive(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    // SAFETY: signal 0 is sent to nobody; it is only looked whether it could be.
    pid > 0 && (unsafe { libc::kill(pid, 0) } == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM))
}

/// Whether the peer of the socket `fd` has closed it or its sending side, or the connection is broken.
pub fn is_hung_up(fd: i32) -> bool {
    let mut watched = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: `watched` is one valid place to read from and write to; the call does not wait.
    let told = unsafe { libc::poll(&raw mut watched, 1, 0) };
    told > 0 && watched.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}

/// CPU time that this process has used so far; zeros if the system does not provide it.
pub fn cpu_times() -> CpuTimes {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place to write to.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return CpuTimes::default();
    }
    // SAFETY: zeroed bytes are a valid `rusage`, and the call has filled it in.
    let usage = unsafe { usage.assume_init() };
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    CpuTimes { system_us: micros(usage.ru_stime), user_us: micros(usage.ru_utime) }
}

/// CPU time that the calling thread has used so far, in nanoseconds; 0 if the system does not provide it.
pub fn thread_cpu_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return 0;
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A clock of the calling thread's CPU time, which other threads may read as long as the thread lives; `None` if there
/// is none.
pub fn thread_cpu_clock() -> Option<i32> {
    let mut clock = 0;
    // SAFETY: the calling thread lives, and `clock` is a valid place to write to.
    (unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) } == 0).then_some(clock)
}

/// The turns that [`run_in_short_turns`] asks for: the shortest that Linux takes.
const SHORT_TURN_NANOS: u64 = 100_000;

/// Asks the scheduler for short turns for the calling thread, which then comes sooner when it wakes up while others run, as
/// often as its share allows (EEVDF, Linux 6.12 and later: `sched(7)`). Others, and a system that refuses, leave it as it is.
#[cfg(target_os = "linux")]
pub fn run_in_short_turns() {
    // SAFETY: zeroed bytes are valid attributes.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let len = size_of::<libc::sched_attr>() as u32;
    // SAFETY: `attributes` is a valid place of that size to write to; thread 0 is the calling one.
    if unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, len, 0) } != 0 {
        return;
    }
    // Real-time classes have other rules.
    if matches!(attributes.sched_policy as i32, libc::SCHED_OTHER | libc::SCHED_BATCH) {
        attributes.sched_runtime = SHORT_TURN_NANOS;
        // SAFETY: `attributes` is a valid place to read from, and tells its size.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw mut attributes, 0) };
    }
}

/// Other systems have no such turns.
#[cfg(not(target_os = "linux"))]
pub fn run_in_short_turns() {}

/// What a clock says, in nanoseconds; 0 if there is no such clock.
pub fn clock_nanos(clock: i32) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return 0;
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Idle time of the processors that this process may use.
pub struct IdleClock {
    /// Their names in the system's statistics.
    processors: Vec<String>,
    nanos_per_tick: u64,
}

impl IdleClock {
    /// Of the processors that the process may use now.
    pub fn of_this_process() -> Self {
        // SAFETY: zeroed bytes are an empty set of processors.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is a valid place of that size to write to.
        let told = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } == 0;
        // SAFETY: the number is below the size of the set.
        let has = |number: &usize| told && unsafe { libc::CPU_ISSET(*number, &set) };
        let processors = (0..libc::CPU_SETSIZE as usize).filter(has).map(|number| format!("cpu{number}")).collect();
        // SAFETY: asks for a constant of the system.
        let ticks = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).unwrap_or(100).max(1);
        Self { processors, nanos_per_tick: 1_000_000_000 / ticks }
    }

    /// The sum of their idle times since the system started, in nanoseconds; `None` if the system does not provide it.
    pub fn nanos(&self) -> Option<u64> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let mut ticks = 0;
        for line in text.lines().take_while(|line| line.starts_with("cpu")) {
            let mut words = line.split_ascii_whitespace();
            if words.next().is_some_and(|name| self.processors.iter().any(|own| own == name)) {
                // user, nice, system, then idle, and waiting for a disk.
                ticks += words.skip(3).take(2).map_while(|word| word.parse::<u64>().ok()).sum::<u64>();
            }
        }
        Some(ticks * self.nanos_per_tick)
    }
}

/// Kernel, release and architecture, as `uname` gives them.
pub fn name() -> String {
    let part = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let (kernel, release) = (part("ostype"), part("osrelease"));
    let kernel = if kernel.is_empty() { std::env::consts::OS } else { kernel.trim() };
    format!("{kernel} {} {}", release.trim(), std::env::consts::ARCH)
}

/// Memory of the machine in bytes, 0 if the system does not provide it.
pub fn machine_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
