//! A report as one HTML page that needs nothing beside it: charts are inline SVG.

use super::chart::ChartError;
use super::report::{Comparison, HEADS, Report, RunLine, Section};

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
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; }
figure svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin-top: .6rem; }
th, td { padding: .35rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 600; font-size: .85rem; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 12rem; }
details { margin-top: .9rem; color: var(--soft); }
summary { cursor: pointer; }
.parameters td { white-space: normal; text-align: left; }
.met { color: #00704f; } .missed { color: #b3261e; font-weight: 600; }
";

/// The page.
pub(super) fn render(report: &Report) -> Result<String, ChartError> {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <header>\n<h1>{title}</h1>\n",
        title = escaped(&report.title)
    );
    paragraphs(&mut page, &report.preface);
    if let (all @ 1.., met) = report.targets() {
        page.push_str(&format!("<p>{met} of {all} targets are met.</p>\n"));
    }
    page.push_str("</header>\n");
    for section in &report.sections {
        put_section(&mut page, section)?;
    }
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(page)
}

fn put_section(page: &mut String, section: &Section) -> Result<(), ChartError> {
    page.push_str(&format!(
        "<section>\n<h2>{}</h2>\n",
        escaped(&section.title)
    ));
    paragraphs(page, &section.text);
    if !section.charts.is_empty() {
        page.push_str("<div class=\"charts\">\n");
        for chart in &section.charts {
            page.push_str(&format!(
                "<figure role=\"img\" aria-label=\"{}\">{}</figure>\n",
                escaped(&chart.title),
                scalable(&chart.svg()?)
            ));
        }
        page.push_str("</div>\n");
    }
    if !section.comparisons.is_empty() {
        put_table(page, &section.comparisons);
    }
    put_details(page, section);
    page.push_str("</section>\n");
    Ok(())
}

fn put_table(page: &mut String, comparisons: &[Comparison]) {
    page.push_str("<div class=\"scroll\"><table>\n<tr>");
    for head in HEADS {
        page.push_str(&format!("<th>{head}</th>"));
    }
    page.push_str("</tr>\n");
    for comparison in comparisons {
        let class = match comparison.is_met() {
            Some(true) => "met",
            Some(false) => "missed",
            None => "",
        };
        page.push_str("<tr>");
        let cells = comparison.cells();
        let last = cells.len() - 1;
        for (at, cell) in cells.iter().enumerate() {
            let class = if at == last { class } else { "" };
            page.push_str(&format!("<td class=\"{class}\">{}</td>", escaped(cell)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></div>\n");
}

/// What the numbers were found with, and the runs behind them.
fn put_details(page: &mut String, section: &Section) {
    if !section.parameters.is_empty() {
        page.push_str("<details><summary>Parameters</summary><table class=\"parameters\">\n");
        for (name, value) in &section.parameters {
            let (name, value) = (escaped(name), escaped(value));
            page.push_str(&format!("<tr><td>{name}</td><td>{value}</td></tr>\n"));
        }
        page.push_str("</table></details>\n");
    }
    if section.runs.is_empty() {
        return;
    }
    let count = section.runs.len();
    page.push_str(&format!(
        "<details><summary>Runs ({count})</summary><div class=\"scroll\"><table>\n<tr>"
    ));
    for head in RunLine::HEADS {
        page.push_str(&format!("<th>{head}</th>"));
    }
    page.push_str("</tr>\n");
    for run in &section.runs {
        let cells = run
            .cells()
            .map(|cell| format!("<td>{}</td>", escaped(&cell)));
        page.push_str(&format!("<tr>{}</tr>\n", cells.concat()));
    }
    page.push_str("</table></div></details>\n");
}

fn paragraphs(page: &mut String, paragraphs: &[String]) {
    for paragraph in paragraphs {
        page.push_str(&format!("<p>{}</p>\n", escaped(paragraph)));
    }
}

/// An SVG document as an element of a page: without its XML declaration.
fn scalable(svg: &str) -> &str {
    svg.find("<svg").map_or(svg, |start| &svg[start..])
}

fn escaped(text: &str) -> String {
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
