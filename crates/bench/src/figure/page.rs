//! A report as one HTML page that needs nothing beside it: charts are inline SVG.

use anabranch_types::markup::{escaped, page};

use super::chart::ChartError;
use super::report::{Comparison, HEADS, Report, RunLine, Section};

/// Aligns numbers in columns, and puts charts side by side.
const STYLE: &str = "
.charts { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
th, td { text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 12rem; }
.parameters td { white-space: normal; text-align: left; }
.met { color: #00704f; } .missed { color: #b3261e; font-weight: 600; }
";

/// Renders the page.
pub(super) fn render(report: &Report) -> Result<String, ChartError> {
    let mut header = String::new();
    paragraphs(&mut header, &report.preface);
    if let (all @ 1.., met) = report.targets() {
        header.push_str(&format!("<p>{met} of {all} targets are met.</p>\n"));
    }
    let mut body = String::new();
    for section in &report.sections {
        put_section(&mut body, section)?;
    }
    Ok(page(&report.title, STYLE, &header, &body))
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

/// Appends the parameters and the runs of a section.
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

/// Removes the XML declaration, so that the SVG document can be an element of a page.
fn scalable(svg: &str) -> &str {
    svg.find("<svg").map_or(svg, |start| &svg[start..])
}
