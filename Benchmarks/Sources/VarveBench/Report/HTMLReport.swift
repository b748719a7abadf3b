import Foundation

/// A page with the rows as a table and their plots: throughput by second, latency percentiles, and the bytes of each
/// level. It is self-contained and loads no other files.
struct HTMLReport {
  let rows: [Row]
  var title = "varve-bench"
  var preamble = ""

  var page: String {
    """
    <!doctype html>
    <html lang="en"><head><meta charset="utf-8"><title>\(escape(title))</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <style>
    body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1340px; padding: 0 1rem; color: #222 }
    svg { width: 100%; max-width: 640px; font: 11px system-ui, sans-serif; fill: #333 }
    .plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr)); gap: 1rem }
    table { border-collapse: collapse; margin: 1rem 0 } th, td { padding: .2rem .6rem; text-align: right }
    th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left }
    tr:nth-child(even) { background: #f5f5f3 } pre { overflow-x: auto }
    </style></head><body>
    <h1>\(escape(title))</h1>
    \(preamble)
    <p>\(escape(versions))</p>
    \(table)
    <h2>Throughput by second</h2><div class="plots">\(throughput)</div>
    <h2>Latency</h2><div class="plots">\(latency)</div>
    <h2>Levels</h2><div class="plots">\(levels)</div>
    </body></html>

    """
  }

  private var versions: String {
    var seen: [String] = []
    for row in rows where !seen.contains(row.version) { seen.append(row.version) }
    return seen.joined(separator: " · ")
  }

  private var table: String {
    let head =
      "<tr><th>workload</th><th>engine</th><th>round</th><th>µs/op</th><th>ops/s</th><th>p50</th><th>p99</th>"
      + "<th>p99.9</th><th>p99.99</th><th>max µs</th><th>CPU s</th><th>peak MiB</th><th>tables MiB</th>"
      + "<th>log MiB</th><th>write amp.</th><th>space amp.</th><th>found</th></tr>"
    let body = rows.map { row in
      let cells: [String] = [
        row.workload, row.engine, "\(row.round)", Self.number(row.microsPerOp), SVGPlot.short(row.opsPerSecond),
        Self.number(row.p50), Self.number(row.p99), Self.number(row.p999), Self.number(row.p9999),
        Self.number(row.max), Self.number(row.cpuSeconds), Self.mebibytes(row.peakResidentBytes),
        Self.mebibytes(row.diskBytes), Self.mebibytes(row.logBytes), Self.number(row.writeAmplification),
        Self.number(row.spaceAmplification), row.found.map { "\($0)" } ?? "",
      ]
      return "<tr>" + cells.map { "<td>\(escape($0))</td>" }.joined() + "</tr>"
    }
    return "<table>\(head)\(body.joined(separator: "\n"))</table>"
  }

  private static func number(_ value: Double?) -> String { value.map { String(format: "%.4g", $0) } ?? "" }
  private static func mebibytes(_ value: UInt64) -> String { "\(value >> 20)" }

  /// The rows of the last round, by workload in order of appearance. A repeated workload is numbered.
  private var lastRound: [(name: String, rows: [Row])] {
    let last = rows.map(\.round).max() ?? 1
    var groups: [(name: String, rows: [Row])] = []
    var repeats: [String: Int] = [:]
    for row in rows where row.round == last {
      let count = (repeats[row.engine + row.workload] ?? 0) + 1
      repeats[row.engine + row.workload] = count
      let name = count == 1 ? row.workload : "\(row.workload) (\(count))"
      if let index = groups.firstIndex(where: { $0.name == name }) {
        groups[index].rows.append(row)
      } else {
        groups.append((name, [row]))
      }
    }
    return groups
  }

  private var throughput: String {
    lastRound.compactMap { group in
      let series = group.rows.filter { $0.perSecond.count > 2 }.map { row in
        SVGPlot.Series(
          name: row.engine, points: row.perSecond.enumerated().map { (Double($0.offset + 1), Double($0.element)) })
      }
      guard !series.isEmpty else { return nil }
      return SVGPlot(title: group.name, xLabel: "second", yLabel: "operations", series: series).element
    }.joined(separator: "\n")
  }

  private var latency: String {
    lastRound.compactMap { group in
      let series = group.rows.filter { !$0.percentiles.isEmpty }.map { row in
        // The axis counts nines: 0 is the fastest, 1 is p90, 2 is p99, 5 is the slowest.
        let points = row.percentiles.map { pair in
          (pair[0] >= 100 ? 5.5 : -log10(1 - pair[0] / 100), Swift.max(pair[1], 0.01))
        }
        return SVGPlot.Series(name: row.engine, points: points.map { (x: $0.0, y: $0.1) })
      }
      guard !series.isEmpty else { return nil }
      return SVGPlot(
        title: group.name, xLabel: "percentile", yLabel: "µs", series: series, yScale: .logarithmic,
        xTicks: [
          (0.301, "50"), (1, "90"), (2, "99"), (3, "99.9"), (4, "99.99"), (5, "99.999"), (5.5, "max"),
        ]
      ).element
    }.joined(separator: "\n")
  }

  private var levels: String {
    lastRound.compactMap { group in
      let shown = group.rows.filter { row in row.levels.contains { $0.bytes > 0 } }
      return shown.isEmpty ? nil : LevelBars(title: "after \(group.name)", rows: shown).element
    }.joined(separator: "\n")
  }
}

/// The bytes of each level, with one bar per engine and level.
private struct LevelBars {
  let title: String
  let rows: [Row]

  var element: String {
    let largest = Double(rows.flatMap { $0.levels.map(\.bytes) }.max() ?? 1)
    var y = 40.0
    var body = ""
    for row in rows {
      body += "<text x=\"4\" y=\"\(y)\" font-weight=\"600\">\(escape(row.engine))</text>"
      y += 6
      let used = row.levels.lastIndex { $0.bytes > 0 } ?? 0
      for level in row.levels.prefix(used + 1) {
        let width = Swift.max(Double(level.bytes) / largest * 400, level.bytes > 0 ? 1 : 0)
        body += "<text x=\"14\" y=\"\(y + 11)\">L\(level.level)</text>"
        body += "<rect x=\"40\" y=\"\(y)\" width=\"\(String(format: "%.1f", width))\" height=\"13\" "
        body += "fill=\"\(SVGPlot.colour(of: row.engine))\"/>"
        body += "<text x=\"\(String(format: "%.1f", 46 + width))\" y=\"\(y + 11)\">"
        body += "\(String(format: "%.1f", Double(level.bytes) / 1_048_576)) MiB, \(level.files) files</text>"
        y += 16
      }
      y += 18
    }
    return "<svg viewBox=\"0 0 640 \(Int(y))\" role=\"img\"><title>\(escape(title))</title>"
      + "<text x=\"4\" y=\"16\" font-weight=\"600\">\(escape(title))</text>\(body)</svg>"
  }
}
