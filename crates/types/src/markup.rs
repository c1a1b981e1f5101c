//! Text in XML, SVG and HTML, and self-contained pages.

/// Text as the content of an element, or in an attribute's double quotes.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The style of every report.
const STYLE: &str = "
:root { color-scheme: light; --ink: #1c2430; --soft: #5b6675; --line: #dfe4ea; --accent: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f7f9; color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.2rem; margin: 0 0 .5rem; }
p { margin: 0 0 .7rem; max-width: 46rem; }
header p { color: var(--soft); }
section { background: #fff; border: 1px solid var(--line); border-radius: 10px;
  padding: 1.3rem; margin-top: 1.3rem; }
figure { margin: 0; }
figure svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin-top: .6rem; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; font-size: .85rem; }
details { margin-top: .9rem; color: var(--soft); }
summary { cursor: pointer; }
";

/// A page: `header` comes first, then `body`; `style` extends the common style. Title and style are text, the others
/// HTML.
pub fn page(title: &str, style: &str, header: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n<main>\n\
         <header>\n<h1>{title}</h1>\n{header}</header>\n{body}</main>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_taken_for_markup() {
        assert_eq!(
            escaped("a < b & \"c\" > d"),
            "a &lt; b &amp; &quot;c&quot; &gt; d"
        );
        let page = page("<b>", "", "", "<p>x</p>");
        assert!(page.contains("<title>&lt;b&gt;</title>") && page.contains("<p>x</p>"));
    }
}
