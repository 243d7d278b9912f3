//! A terminal as a person sees it: a pseudo-terminal with a program in it, and a screen that shows what the program draws.

use crate::support::command::Terminal;
use crate::support::program;
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Generous: other tests run beside it.
const DEADLINE: Duration = Duration::from_secs(40);
const SCROLLBACK: usize = 2_000;

pub(crate) struct Window {
    master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    drawn: watch::Receiver<u64>,
}

impl Window {
    /// Runs `baton` with these arguments in a window of so many rows and columns.
    pub(crate) fn open(terminal: &Terminal, arguments: &[&str], (rows, columns): (u16, u16)) -> Self {
        let pair = native_pty_system().openpty(size(rows, columns)).expect("a terminal");
        let mut command = CommandBuilder::new(program("baton"));
        command.args(arguments);
        let config = terminal.profile().ancestors().nth(3).expect("a directory").to_owned();
        command.env("XDG_CONFIG_HOME", config);
        command.env("TERM", "xterm-256color");
        let child = pair.slave.spawn_command(command).expect("the program starts");
        drop(pair.slave);
        let mut output = pair.master.try_clone_reader().expect("its output");
        let keys = pair.master.take_writer().expect("its keys");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(number(rows), number(columns), SCROLLBACK)));
        let (told, drawn) = watch::channel(0);
        let shared = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A pseudo-terminal whose program has ended gives an error.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shared.lock().expect("the screen").process(&bytes[..count]);
                told.send_modify(|drawn| *drawn += 1);
            }
        });
        Self { master: pair.master, child, keys, screen, drawn }
    }

    /// Presses keys, as the bytes that a terminal sends for them.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).expect("keys can be pressed");
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        self.screen.lock().expect("the screen").screen_mut().set_size(number(rows), number(columns));
        self.master.resize(size(rows, columns)).expect("it changes its size");
    }

    /// What is on the screen now, without the spaces at the ends of rows.
    pub(crate) fn shown(&self) -> String {
        let parser = self.screen.lock().expect("the screen");
        let contents = parser.screen().contents();
        contents.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Everything that ever stood there, from the first row in the scrollback to the last on the screen.
    pub(crate) fn everything(&self) -> String {
        let mut parser = self.screen.lock().expect("the screen");
        let screen = parser.screen_mut();
        screen.set_scrollback(usize::MAX);
        let (rows, columns) = screen.size();
        let above = screen.scrollback();
        let mut all: Vec<String> = Vec::new();
        for back in (1..=above).rev() {
            screen.set_scrollback(back);
            all.extend(screen.rows(0, columns.get()).next());
        }
        screen.set_scrollback(0);
        all.extend(screen.rows(0, columns.get()).take(usize::from(rows.get())));
        all.iter().map(|row| row.trim_end()).collect::<Vec<_>>().join("\n")
    }

    /// Waits until the screen shows a text.
    pub(crate) async fn sees(&mut self, text: &str) {
        self.until(text, |shown| shown.contains(text)).await;
    }

    pub(crate) async fn until(&mut self, what: &str, look: impl Fn(&str) -> bool) {
        let looked = async {
            loop {
                self.drawn.borrow_and_update();
                if look(&self.shown()) {
                    return;
                }
                if self.drawn.changed().await.is_err() {
                    assert!(look(&self.shown()), "it ended without: {what}\n{}", self.shown());
                    return;
                }
            }
        };
        let came = tokio::time::timeout(DEADLINE, looked).await.is_ok();
        assert!(came, "it never came: {what}\n{}", self.shown());
    }

    /// Row and column of the cursor.
    pub(crate) fn cursor(&self) -> (u16, u16) {
        self.screen.lock().expect("the screen").screen().cursor_position()
    }

    /// Waits for its end.
    pub(crate) async fn code(mut self) -> u32 {
        let ended = tokio::task::spawn_blocking(move || self.child.wait());
        tokio::time::timeout(DEADLINE, ended).await.expect("it ends").expect("it is waited for").expect("it ends").exit_code()
    }
}

fn size(rows: u16, columns: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn number(of: u16) -> NonZeroU16 {
    NonZeroU16::new(of).expect("a window has rows and columns")
}
