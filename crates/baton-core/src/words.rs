//! What the hub itself says in a conversation, in the conversation's language (H4, T5): English and Simplified Chinese.

use baton_proto::{Language, MAX_NAME_CHARS, ModelError, ModelErrorKind, Said, make_visible, redact};
use serde_json::Value;

/// The language a text is written in, or `None` when it says too little to tell.
pub fn language_of(text: &str) -> Option<Language> {
    let chinese = text.chars().filter(|c| ('\u{4e00}'..='\u{9fff}').contains(c)).count();
    let latin = text.chars().filter(char::is_ascii_alphabetic).count();
    if text.starts_with('/') || chinese + latin == 0 {
        return None;
    }
    // A Chinese word says about as much as five Latin letters, and Chinese text is full of names in Latin ones.
    Some(if chinese * 5 >= latin { Language::Zh } else { Language::En })
}

/// The first line of a text, short enough for a title.
pub fn headline(text: &str) -> String {
    let line = redact(text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default());
    if line.chars().count() <= MAX_NAME_CHARS {
        return line;
    }
    let cut: String = line.chars().take(MAX_NAME_CHARS - 1).collect();
    format!("{}…", cut.trim_end())
}

/// Bytes that a text takes in JSON, where quotes, backslashes and control characters grow.
pub fn json_len(text: &str) -> usize {
    let grown = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if u32::from(c) < 0x20 => 6,
        c => c.len_utf8(),
    };
    text.chars().map(grown).sum()
}

/// At most so much of a text that it takes `bytes` in JSON, cut at a character, with a sign that it was cut.
pub fn json_excerpt(text: &str, bytes: usize) -> String {
    let mut kept = excerpt(text, bytes);
    while json_len(&kept) > bytes {
        kept = excerpt(&kept, kept.len() * 3 / 4);
    }
    kept
}

/// At most `bytes` of a text, cut at a character, with a sign that it was cut.
pub fn excerpt(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

pub(crate) fn stopped(language: Language, device: &str) -> String {
    match language {
        Language::En => format!("Stopped on {device}."),
        Language::Zh => format!("已在 {device} 上停止。"),
    }
}

/// Stands behind what there is of an answer.
pub(crate) fn broken_off(language: Language) -> &'static str {
    match language {
        Language::En => "(Stopped here.)",
        Language::Zh => "（到此停止。）",
    }
}

pub(crate) fn paused(language: Language, device: &str) -> String {
    match language {
        Language::En => format!("Paused on {device}."),
        Language::Zh => format!("已在 {device} 上暂停。"),
    }
}

pub(crate) fn put_aside(language: Language) -> &'static str {
    match language {
        Language::En => "Put aside for another task.",
        Language::Zh => "为另一项任务暂时搁置。",
    }
}

pub(crate) fn done(language: Language) -> &'static str {
    match language {
        Language::En => "Done",
        Language::Zh => "已完成",
    }
}

pub(crate) fn checking(language: Language) -> &'static str {
    match language {
        Language::En => "Checking the result",
        Language::Zh => "正在检查结果",
    }
}

pub(crate) fn stopped_short(language: Language, left: usize) -> String {
    match language {
        Language::En => format!("The agent stopped with {left} steps open. Say how to go on."),
        Language::Zh => format!("还有 {left} 个步骤未完成,请说明如何继续。"),
    }
}

pub(crate) fn device_reported(language: Language) -> &'static str {
    match language {
        Language::En => "The device reported the outcome itself.",
        Language::Zh => "设备已自行报告结果。",
    }
}

pub(crate) fn declared_risk(language: Language, tool: &str) -> Said {
    let text = match language {
        Language::En => format!("The tool '{tool}' is declared so."),
        Language::Zh => format!("工具 '{tool}' 即按此风险声明。"),
    };
    Said::new("declared_risk", text).naming("tool", tool)
}

pub(crate) fn stopped_on_its_device(language: Language) -> &'static str {
    match language {
        Language::En => "It was stopped on its device.",
        Language::Zh => "已在其设备上停止。",
    }
}

pub(crate) fn stopped_while_it_ran(language: Language, reason: &str, known: &str) -> String {
    match language {
        Language::En => format!("{reason} The device stopped while it ran. {known}"),
        Language::Zh => format!("{reason}设备在其运行期间停止。{known}"),
    }
}

pub(crate) fn effect_unknown(language: Language, reason: &str) -> String {
    match language {
        Language::En => format!("{reason} Whether it took effect before is unknown."),
        Language::Zh => format!("{reason}此前是否已生效无法得知。"),
    }
}

pub(crate) fn effect_unknown_offline(language: Language, reason: &str) -> String {
    match language {
        Language::En => format!("{reason} Its device is offline, so whether it took effect is unknown."),
        Language::Zh => format!("{reason}其设备已离线,无法得知是否已生效。"),
    }
}

pub(crate) fn lost_while_it_ran(language: Language) -> &'static str {
    match language {
        Language::En => "The device lost its connection while this ran.",
        Language::Zh => "运行期间设备断开了连接。",
    }
}

pub(crate) fn hub_stopped_while_it_ran(language: Language) -> &'static str {
    match language {
        Language::En => "The hub stopped while this ran; its device hasn't reported yet.",
        Language::Zh => "运行期间中枢停止;设备尚未报告。",
    }
}

pub(crate) fn something_new_was_said(language: Language) -> &'static str {
    match language {
        Language::En => "The user said something new before this was decided.",
        Language::Zh => "在作出决定之前,用户提出了新的要求。",
    }
}

pub(crate) fn going_in_circles(language: Language, tool: &str) -> String {
    match language {
        Language::En => format!("Paused: the agent kept repeating the same call of '{tool}'. Say how to go on, or resume."),
        Language::Zh => format!("已暂停:助手一直重复同一个 '{tool}' 调用。请说明如何继续,或恢复任务。"),
    }
}

pub(crate) fn deadly(language: Language, times: u32) -> String {
    match language {
        Language::En => format!(
            "The hub died {times} times in a row right after taking this session up, so it leaves this one alone and serves the others. Nothing is lost. Resume it once the cause is mended; from a terminal: baton resume"
        ),
        Language::Zh => format!(
            "中枢连续 {times} 次在恢复此会话后立即中断,因此搁置此会话,其他会话照常。内容均已保留。问题解决后请恢复;在终端中:baton resume"
        ),
    }
}

pub(crate) fn came_late(language: Language, tool: &str, what: &str) -> String {
    let shown = json_excerpt(make_visible(what.trim()).trim(), 400);
    match language {
        Language::En => format!("'{tool}' was given up before, and took effect after all, as its device reports now: {shown}"),
        Language::Zh => format!("先前已放弃的 '{tool}' 后来仍然生效,设备现在报告:{shown}"),
    }
}

pub(crate) fn expired(language: Language) -> &'static str {
    match language {
        Language::En => "Nobody decided within a day; it is asked anew.",
        Language::Zh => "一天内无人决定,将重新询问。",
    }
}

pub(crate) fn imported(language: Language) -> &'static str {
    match language {
        Language::En => "Imported: what was open elsewhere doesn't go on by itself.",
        Language::Zh => "已导入:在其他地方未完成的操作不会自动继续。",
    }
}

pub(crate) fn workspace_changed_meanwhile(language: Language) -> &'static str {
    match language {
        Language::En => "The workspace changed meanwhile; it is asked anew.",
        Language::Zh => "工作区在此期间已更改,将重新询问。",
    }
}

pub(crate) fn interrupted_by_input(language: Language) -> &'static str {
    match language {
        Language::En => "Interrupted by what was said next.",
        Language::Zh => "已被新的输入打断。",
    }
}

pub(crate) fn too_many_iterations(language: Language, limit: u32) -> String {
    match language {
        Language::En => format!("Paused after {limit} model calls in one turn. Resume to give it as many again, or say how to go on."),
        Language::Zh => format!("一个回合内已调用模型 {limit} 次,任务已暂停。可恢复以继续,或说明如何继续。"),
    }
}

pub(crate) fn task_budget_used_up(language: Language, limit: u64) -> String {
    match language {
        Language::En => {
            format!("Paused: the task has used its budget of {limit} tokens. Resume to give it as many again, or say how to go on.")
        }
        Language::Zh => format!("任务已用完 {limit} 个令牌的预算,现已暂停。可恢复以再给同样多的预算,或说明如何继续。"),
    }
}

pub(crate) fn day_budget_used_up(language: Language, limit: u64) -> String {
    match language {
        Language::En => format!("Paused: today's budget of {limit} tokens is used up. Resume and confirm to go on today all the same."),
        Language::Zh => format!("今天 {limit} 个令牌的预算已用完,任务已暂停。恢复并确认后,今天仍可继续。"),
    }
}

pub(crate) fn model_gave_up(language: Language, error: &ModelError) -> String {
    match language {
        Language::En => {
            format!(
                "The model can't be reached: {} {} The task is paused; resume it when that is mended.",
                sentence(&error.message),
                error.hint
            )
        }
        // The provider's own words follow in its language, since they name the particulars.
        Language::Zh => format!("无法使用模型:{}({})任务已暂停,问题解决后可恢复。", model_trouble(error.kind), error.message.trim_end()),
    }
}

/// What went wrong with a model and what to do, in Chinese.
const fn model_trouble(kind: ModelErrorKind) -> &'static str {
    match kind {
        ModelErrorKind::Unreachable => "所填地址没有响应,请检查地址以及模型服务是否在运行。",
        ModelErrorKind::TimedOut => "模型未在规定时间内回答,请检查模型服务是否过载。",
        ModelErrorKind::Unauthorized => "密钥缺失或无效,请在设置中更换密钥。",
        ModelErrorKind::RateLimited => "请求过于频繁或额度已用完,请稍后再试或检查额度。",
        ModelErrorKind::Unavailable => "模型服务暂时不可用,请稍后再试。",
        ModelErrorKind::Refused => "模型服务拒绝了请求,请检查模型名称与设置。",
        ModelErrorKind::Malformed => "模型的回答无法读取,请换用其他模型或服务。",
        ModelErrorKind::Cancelled => "请求已取消。",
    }
}

/// A text with a full stop, if it ends without one.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with(['.', '!', '?', '。', '…']) { text.to_owned() } else { format!("{text}.") }
}

pub(crate) fn outcome_question(language: Language, tool: &str, arguments: &Value) -> String {
    let shown = excerpt(&make_visible(&arguments.to_string()), 600);
    match language {
        Language::En => format!("The device died while '{tool}' ran, and nobody knows whether it took effect: {shown}"),
        Language::Zh => format!("设备在执行 '{tool}' 时中断,无法得知是否已生效:{shown}"),
    }
}

/// The question for another goal, and its options; the first one is yes.
pub(crate) fn intent_question(language: Language, goal: &str, reason: &str) -> (String, Vec<String>) {
    match language {
        Language::En => (format!("Change the goal to: {goal}? {reason}"), vec!["Yes, change it".to_owned(), "No, keep it".to_owned()]),
        Language::Zh => (format!("是否将目标改为:{goal}?{reason}"), vec!["是,更改".to_owned(), "否,保持不变".to_owned()]),
    }
}

/// Whether a typed answer is a plain yes.
pub(crate) fn is_yes(text: &str) -> bool {
    const YES: [&str; 13] = ["yes", "y", "ok", "okay", "sure", "yes please", "是", "是的", "好", "好的", "可以", "行", "对"];
    let text = text.trim().trim_end_matches(['.', '!', '。', '!', ',', ' ']).to_lowercase();
    YES.contains(&text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_follows_what_is_written() {
        let rows = [
            ("set the home page button's corner radius to 8px", Some(Language::En)),
            ("把首页按钮的圆角改成 8px,检查深色模式下的对比度", Some(Language::Zh)),
            ("把 index.html 里 .btn 的圆角改成 8px", Some(Language::Zh)),
            ("use the font 思源黑体 for the headings of every page please", Some(Language::En)),
            ("/show index.html", None),
            ("123", None),
        ];
        for (text, language) in rows {
            assert_eq!(language_of(text), language, "{text}");
        }
    }

    #[test]
    fn a_text_takes_in_json_what_is_foretold() {
        for text in ["plain", "\"quoted\" \\ back", "line\n\ttab\r", "\u{0}\u{1b}[2J", "中文 é 🙂"] {
            assert_eq!(json_len(text), serde_json::to_string(text).unwrap().len() - 2, "{text:?}");
        }
        assert!(json_len(&json_excerpt(&"\u{1}".repeat(1000), 300)) <= 300);
        assert_eq!(json_excerpt("short", 300), "short");
    }

    #[test]
    fn a_cut_text_says_so_and_keeps_whole_characters() {
        assert_eq!(excerpt("短文", 6), "短文");
        assert_eq!(excerpt("三个字", 8), "三…");
        assert_eq!(headline("\n  first line \nsecond"), "first line");
        assert_eq!(headline(&"x".repeat(200)).chars().count(), MAX_NAME_CHARS);
    }
}
