use super::wrap::{cut, rows, shown};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::{execute, terminal};
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// The terminal: everything that is finished goes into its scrollback and stays there; below it stand the row that an answer is at, rows that
/// say how it stands, and the line that is being written. Only those are ever drawn again.
#[derive(Debug)]
pub(super) struct Screen {
    width: usize,
    height: usize,
    colours: bool,
    /// The row that an answer is at.
    open: Option<(Style, String)>,
    below: Below,
    /// How many rows above the cursor what is drawn again begins.
    above_cursor: usize,
    buffer: String,
}

/// What stands below the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Below {
    pub(super) status: Vec<String>,
    pub(super) input: Vec<String>,
    /// Row and column in the input.
    pub(super) cursor: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    /// Thinking, and what the terminal itself has to say.
    Dim,
    /// What waits for the user.
    Bold,
}

impl Screen {
    /// Takes the terminal over until it is dropped.
    pub(super) fn open() -> io::Result<Self> {
        let (width, height) = terminal::size()?;
        terminal::enable_raw_mode()?;
        // From here on the terminal is given back whatever happens.
        let screen = Self {
            width: usize::from(width).max(20),
            height: usize::from(height).max(6),
            colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::env::var("TERM").is_ok_and(|term| term != "dumb"),
            open: None,
            below: Below::default(),
            above_cursor: 0,
            buffer: String::new(),
        };
        execute!(io::stdout(), EnableBracketedPaste)?;
        Ok(screen)
    }

    pub(super) const fn width(&self) -> usize {
        self.width
    }

    /// After the terminal changed its size. What stands in the scrollback is the terminal's to rearrange.
    pub(super) fn resize(&mut self, width: u16, height: u16) {
        self.erase();
        self.width = usize::from(width).max(20);
        self.height = usize::from(height).max(6);
        if let Some((style, row)) = self.open.take() {
            self.grow(style, &row);
        }
        self.draw();
    }

    /// Word of a new size comes behind the keys that were pressed meanwhile; rows that are too wide would leave traces.
    pub(super) fn measure(&mut self) {
        if let Ok((width, height)) = terminal::size()
            && (usize::from(width).max(20), usize::from(height).max(6)) != (self.width, self.height)
        {
            self.resize(width, height);
        }
    }

    /// Whole lines.
    pub(super) fn print(&mut self, style: Style, text: &str) {
        self.erase();
        if let Some((style, row)) = self.open.take() {
            self.row(style, &row);
        }
        for line in shown(text).lines() {
            for row in rows(line, self.width) {
                self.row(style, &row);
            }
        }
        self.draw();
    }

    /// A piece of a text that goes on.
    pub(super) fn append(&mut self, style: Style, text: &str) {
        self.erase();
        if self.open.as_ref().is_some_and(|(open, _)| *open != style)
            && let Some((style, row)) = self.open.take()
        {
            self.row(style, &row);
        }
        self.grow(style, &shown(text));
        self.draw();
    }

    /// Ends the text that goes on.
    pub(super) fn end(&mut self, ending: &str) {
        self.erase();
        if let Some((style, row)) = self.open.take() {
            // A text that ends with the end of a line has no row left.
            let row = row + ending;
            if !row.is_empty() {
                self.row(style, &row);
            }
        }
        self.draw();
    }

    pub(super) fn set_below(&mut self, below: Below) {
        if below != self.below {
            self.erase();
            self.below = below;
            self.draw();
        }
    }

    fn grow(&mut self, style: Style, text: &str) {
        let all = self.open.take().map_or_else(String::new, |(_, row)| row) + text;
        let mut lines = all.split('\n');
        let last = lines.next_back().unwrap_or_default().to_owned();
        let finished: Vec<String> = lines.map(str::to_owned).collect();
        for line in finished {
            for row in rows(&line, self.width) {
                self.row(style, &row);
            }
        }
        let mut under_way = rows(&last, self.width);
        let open = under_way.pop().unwrap_or_default();
        for row in under_way {
            self.row(style, &row);
        }
        self.open = Some((style, open));
    }

    /// A row that stays.
    fn row(&mut self, style: Style, row: &str) {
        self.styled(style, row);
        self.buffer.push_str("\r\n");
    }

    fn styled(&mut self, style: Style, row: &str) {
        let code = match style {
            Style::Dim if self.colours => "2",
            Style::Bold if self.colours => "1",
            _ => "",
        };
        let _ = if code.is_empty() { write!(self.buffer, "{row}") } else { write!(self.buffer, "\x1b[{code}m{row}\x1b[0m") };
    }

    /// Takes away what is drawn again.
    fn erase(&mut self) {
        if self.above_cursor > 0 {
            let _ = write!(self.buffer, "\x1b[{}A", self.above_cursor);
        }
        self.above_cursor = 0;
        self.buffer.push_str("\r\x1b[J");
    }

    fn draw(&mut self) {
        let below = self.below.clone();
        let mut count = 0;
        if let Some((style, row)) = self.open.clone() {
            self.row(style, &row);
            count += 1;
        }
        for row in below.status.iter().take(3) {
            let row = cut(row, self.width - 1);
            self.row(Style::Dim, &row);
            count += 1;
        }
        // Of a long text the part around the cursor is seen.
        let room = self.height.saturating_sub(count + 1).max(1);
        let first = (below.cursor.0 + 1).saturating_sub(room);
        let seen: Vec<&String> = below.input.iter().skip(first).take(room).collect();
        for (place, row) in seen.iter().enumerate() {
            if place > 0 {
                self.buffer.push_str("\r\n");
            }
            self.buffer.push_str(row);
        }
        let cursor_row = below.cursor.0 - first;
        let down = seen.len().saturating_sub(1 + cursor_row);
        if down > 0 {
            let _ = write!(self.buffer, "\x1b[{down}A");
        }
        self.buffer.push('\r');
        if below.cursor.1 > 0 {
            let _ = write!(self.buffer, "\x1b[{}C", below.cursor.1);
        }
        self.above_cursor = count + cursor_row;
        self.flush();
    }

    fn flush(&mut self) {
        let mut out = io::stdout().lock();
        // A terminal that is gone ends the conversation through its keys.
        let _ = out.write_all(self.buffer.as_bytes()).and_then(|()| out.flush());
        self.buffer.clear();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.erase();
        if let Some((style, row)) = self.open.take() {
            self.row(style, &row);
        }
        self.flush();
        let _ = execute!(io::stdout(), DisableBracketedPaste);
        let _ = terminal::disable_raw_mode();
    }
}
