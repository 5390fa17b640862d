//! The picture: for each scenario the hand-offs a second, their latency, the commands they cost and
//! the fairness of every peer, peers from above in the order of the table.

use std::{error::Error, path::Path};

use plotters::{
    coord::Shift,
    prelude::{
        Circle, Color as _, DrawingArea, IntoDrawingArea as _, IntoFont as _, PathElement,
        RGBColor, Rectangle, SVGBackend, Text,
    },
};

use super::report::{Row, column};

const LINE: i32 = 18;
const HEAD: i32 = 46;
const FOOT: i32 = 26;
const LABELS: i32 = 230;
const PANEL: i32 = 260;
const GAP: i32 = 70;
const OURS: RGBColor = RGBColor(0, 90, 181);
const FLOOR: RGBColor = RGBColor(130, 130, 130);
const OTHERS: RGBColor = RGBColor(220, 90, 50);
const GRID: RGBColor = RGBColor(225, 225, 225);
const INK: RGBColor = RGBColor(40, 40, 40);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// One of the panels.
struct Panel {
    title: &'static str,
    /// The ends of the axis.
    from: f64,
    to: f64,
    logarithmic: bool,
    /// The point, and the end of the line from it.
    point: &'static str,
    line_to: Option<&'static str>,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "hand-offs a second",
        from: 1.0,
        to: 1e6,
        logarithmic: true,
        point: "hand-offs/s",
        line_to: None,
    },
    Panel {
        title: "hand-off: p50 (dot) to p99, microseconds",
        from: 10.0,
        to: 1e6,
        logarithmic: true,
        point: "p50 us",
        line_to: Some("p99 us"),
    },
    Panel {
        title: "commands of clients for a hand-off",
        from: 1.0,
        to: 1e3,
        logarithmic: true,
        point: "commands",
        line_to: None,
    },
    Panel {
        title: "Jain's index of fairness",
        from: 0.0,
        to: 1.0,
        logarithmic: false,
        point: "Jain",
        line_to: None,
    },
];

/// Writes the picture of all rows; rows of one scenario stand together.
///
/// # Errors
/// When the file cannot be written.
pub fn draw(path: &Path, rows: &[Row]) -> Drawn {
    let blocks: Vec<&[Row]> = rows.chunk_by(|a, b| a.scenario == b.scenario).collect();
    let height: i32 = blocks.iter().map(|block| block_height(block)).sum();
    let width = LABELS + 4 * (PANEL + GAP);
    let size = (u32::try_from(width)?, u32::try_from(height + FOOT)?);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&RGBColor(255, 255, 255))?;
    let mut top = 0;
    for block in blocks {
        draw_block(&area, block, top)?;
        top += block_height(block);
    }
    area.present()?;
    Ok(())
}

fn block_height(block: &[Row]) -> i32 {
    HEAD + FOOT + LINE * i32::try_from(block.len()).unwrap_or(0)
}

fn draw_block(area: &Area<'_>, block: &[Row], top: i32) -> Drawn {
    let Some(first) = block.first() else { return Ok(()) };
    write_at(area, &first.scenario.to_string(), (8, top + 8), 15, INK)?;
    for (index, row) in block.iter().enumerate() {
        let label = format!("{}, {}", row.peer, row.setting);
        write_at(area, &label, (8, row_top(top, index) + 2), 12, colour(row))?;
    }
    let mut left = LABELS;
    for panel in &PANELS {
        draw_panel(area, panel, block, (left, top))?;
        left += PANEL + GAP;
    }
    Ok(())
}

fn draw_panel(area: &Area<'_>, panel: &Panel, block: &[Row], (left, top): (i32, i32)) -> Drawn {
    let bottom = row_top(top, block.len());
    write_at(area, panel.title, (left, top + 24), 12, INK)?;
    for (position, label) in panel.ticks() {
        let x = left + position;
        let line = vec![(x, top + HEAD - 4), (x, bottom)];
        area.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
        write_at(area, &label, (x - 8, bottom + 2), 10, INK)?;
    }
    for (index, row) in block.iter().enumerate() {
        let y = row_top(top, index) + LINE / 2;
        let Some(figure) = column(panel.point).of(row) else { continue };
        let x = left + panel.place(figure);
        let colour = colour(row);
        if panel.line_to.is_none() {
            let bar = [(left, y - 5), (x, y + 5)];
            area.draw(&Rectangle::new(bar, colour.mix(0.75).filled()))?;
        }
        if let Some(end) = panel.line_to.and_then(|head| column(head).of(row)) {
            let line = vec![(x, y), (left + panel.place(end), y)];
            area.draw(&PathElement::new(line, colour.stroke_width(2)))?;
            area.draw(&Circle::new((x, y), 4, colour.filled()))?;
        }
        let decimals = if figure < 10.0 { 2 } else { 0 };
        let text = format!("{figure:.decimals$}");
        write_at(area, &text, (left + PANEL + 8, y - 6), 11, INK)?;
    }
    Ok(())
}

impl Panel {
    /// How far from the left edge a figure lies; what is outside is drawn at the edge.
    fn place(&self, figure: f64) -> i32 {
        let share = if self.logarithmic {
            (figure.max(self.from) / self.from).log10() / (self.to / self.from).log10()
        } else {
            (figure - self.from) / (self.to - self.from)
        };
        // Between 0 and the width of a panel.
        #[allow(clippy::cast_possible_truncation)]
        let place = (share.clamp(0.0, 1.0) * f64::from(PANEL)).round() as i32;
        place
    }

    fn ticks(&self) -> Vec<(i32, String)> {
        let figures: Vec<f64> = if self.logarithmic {
            (0..=9)
                .map(|power| self.from * 10_f64.powi(power))
                .take_while(|f| *f <= self.to)
                .collect()
        } else {
            (0..=4).map(|quarter| f64::from(quarter) * 0.25).collect()
        };
        let label = |figure: f64| match figure {
            f if f >= 1e6 => format!("{:.0}M", f / 1e6),
            f if f >= 1e3 => format!("{:.0}k", f / 1e3),
            f => format!("{f}"),
        };
        figures.into_iter().map(|figure| (self.place(figure), label(figure))).collect()
    }
}

fn row_top(top: i32, index: usize) -> i32 {
    top + HEAD + LINE * i32::try_from(index).unwrap_or(0)
}

fn colour(row: &Row) -> RGBColor {
    match row.peer {
        "fencelock" => OURS,
        peer if peer.starts_with("floor") => FLOOR,
        _ => OTHERS,
    }
}

fn write_at(area: &Area<'_>, text: &str, at: (i32, i32), size: u32, colour: RGBColor) -> Drawn {
    area.draw(&Text::new(text.to_owned(), at, ("sans-serif", size).into_font().color(&colour)))?;
    Ok(())
}
