import Foundation

/// A line or bar plot as an SVG element: no script, no style sheet, readable in any browser.
struct SVGPlot {
  struct Series {
    var name: String
    var points: [(x: Double, y: Double)]
  }

  enum Scale { case linear, logarithmic }

  var title: String
  var xLabel: String
  var yLabel: String
  var series: [Series]
  var yScale = Scale.linear
  /// The labeled positions of the x axis, or `nil` for evenly spaced ones.
  var xTicks: [(position: Double, label: String)]?

  private static let width = 640.0
  private static let height = 280.0
  private static let left = 72.0
  private static let right = 16.0
  private static let top = 30.0
  private static let bottom = 44.0

  /// Returns the color of an engine, which is the same in every plot.
  static func colour(of name: String) -> String {
    switch name {
    case "varve": "#0b6e4f"
    case "rocksdb": "#c8553d"
    case "leveldb": "#3d5a80"
    case "lmdb": "#8f5ea2"
    case "sqlite": "#b08900"
    default: "#555555"
    }
  }

  var element: String {
    let points = series.flatMap(\.points)
    guard let xLow = points.map(\.x).min(), let xHigh = points.map(\.x).max() else { return "" }
    let positive = points.map(\.y).filter { $0 > 0 }
    let yHigh = max(points.map(\.y).max() ?? 1, 1e-9)
    let yLow = yScale == .linear ? 0 : pow(10, floor(log10(positive.min() ?? 0.1)))
    let top10 = yScale == .linear ? yHigh * 1.05 : pow(10, ceil(log10(yHigh)))
    let plot = Frame(
      xLow: xLow, xHigh: max(xHigh, xLow + 1e-9), yLow: yLow, yHigh: max(top10, yLow * 10), scale: yScale)

    var out = "<svg viewBox=\"0 0 \(Int(Self.width)) \(Int(Self.height + legendHeight))\" role=\"img\">"
    out += "<title>\(escape(title))</title>"
    out += text(Self.left, 16, title, anchor: "start", weight: "600")
    out += gridLines(plot)
    out += text(Self.width / 2, Self.height - 6, xLabel, anchor: "middle")
    out += text(14, Self.height / 2, yLabel, anchor: "middle", turned: true)
    for one in series {
      let path = one.points.map { "\(number(plot.x($0.x))),\(number(plot.y($0.y)))" }.joined(separator: " ")
      let colour = Self.colour(of: one.name)
      out += "<polyline fill=\"none\" stroke=\"\(colour)\" stroke-width=\"1.6\" points=\"\(path)\"/>"
    }
    return out + legend + "</svg>"
  }

  private var legendHeight: Double { Double((series.count + 3) / 4) * 18 }

  private var legend: String {
    series.enumerated().map { index, one in
      let x = Self.left + Double(index % 4) * 140
      let y = Self.height + 10 + Double(index / 4) * 18
      let colour = Self.colour(of: one.name)
      return "<rect x=\"\(number(x))\" y=\"\(number(y - 9))\" width=\"10\" height=\"10\" fill=\"\(colour)\"/>"
        + text(x + 15, y, one.name, anchor: "start")
    }.joined()
  }

  private func gridLines(_ plot: Frame) -> String {
    var out = ""
    for value in plot.yTicks {
      let y = plot.y(value)
      out += "<line x1=\"\(Int(Self.left))\" x2=\"\(Int(Self.width - Self.right))\" y1=\"\(number(y))\" "
      out += "y2=\"\(number(y))\" stroke=\"#dddddd\"/>"
      out += text(Self.left - 6, y + 4, Self.short(value), anchor: "end")
    }
    let ticks =
      xTicks
      ?? (0...5).map { step in
        let value = plot.xLow + (plot.xHigh - plot.xLow) * Double(step) / 5
        return (value, Self.short(value))
      }
    for tick in ticks {
      out += text(plot.x(tick.position), Self.height - Self.bottom + 16, tick.label, anchor: "middle")
    }
    return out
  }

  /// Maps values to positions in the picture.
  private struct Frame {
    var xLow, xHigh, yLow, yHigh: Double
    var scale: Scale

    func x(_ value: Double) -> Double {
      SVGPlot.left + (value - xLow) / (xHigh - xLow) * (SVGPlot.width - SVGPlot.left - SVGPlot.right)
    }

    func y(_ value: Double) -> Double {
      let share =
        switch scale {
        case .linear: (value - yLow) / (yHigh - yLow)
        case .logarithmic: log10(Swift.max(value, yLow) / yLow) / log10(yHigh / yLow)
        }
      return SVGPlot.height - SVGPlot.bottom - share * (SVGPlot.height - SVGPlot.bottom - SVGPlot.top)
    }

    var yTicks: [Double] {
      switch scale {
      case .linear: return (0...4).map { yLow + (yHigh - yLow) * Double($0) / 4 }
      case .logarithmic:
        let decades = Int(log10(yHigh / yLow).rounded())
        return (0...Swift.max(decades, 1)).map { yLow * pow(10, Double($0)) }
      }
    }
  }

  private func text(
    _ x: Double, _ y: Double, _ content: String, anchor: String, weight: String = "400", turned: Bool = false
  ) -> String {
    let turn = turned ? " transform=\"rotate(-90 \(number(x)) \(number(y)))\"" : ""
    return "<text x=\"\(number(x))\" y=\"\(number(y))\" text-anchor=\"\(anchor)\" font-weight=\"\(weight)\"\(turn)>"
      + "\(escape(content))</text>"
  }

  private func number(_ value: Double) -> String { String(format: "%.1f", value) }

  static func short(_ value: Double) -> String {
    switch abs(value) {
    case 1e9...: String(format: "%.3gG", value / 1e9)
    case 1e6...: String(format: "%.3gM", value / 1e6)
    case 1e3...: String(format: "%.3gk", value / 1e3)
    default: String(format: "%.3g", value)
    }
  }
}

/// Returns a text escaped for use inside an element.
func escape(_ text: String) -> String {
  text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
    .replacingOccurrences(of: ">", with: "&gt;").replacingOccurrences(of: "\"", with: "&quot;")
}
