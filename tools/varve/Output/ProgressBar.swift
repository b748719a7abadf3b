/// A line on standard error that shows the progress of a long command. It is not printed if standard error is not a
/// terminal, or with `--json`.
struct ProgressBar {
  private static let width = 30
  private static let interval = Duration.milliseconds(100)
  private let title: String
  private let isShown: Bool
  private let clock = ContinuousClock()
  private let start: ContinuousClock.Instant
  private var last: ContinuousClock.Instant
  private var lastCount = 0

  init(_ title: String, isQuiet: Bool) {
    self.title = title
    isShown = !isQuiet && StandardError.isTerminal
    start = clock.now
    last = start
  }

  /// Shows `done` of `total` bytes, or only `done` without a total. Prints at most ten times a second.
  mutating func show(_ done: UInt64, of total: UInt64?, entries: UInt64? = nil) {
    guard let seconds = elapsed() else { return }
    var text = title + Self.bar(Double(done), of: total.map { Double($0) }) + "  \(SizeText.text(done))"
    if let entries { text += ", \(entries) entries" }
    if seconds > 0 { text += ", \(SizeText.text(UInt64(Double(done) / seconds)))/s" }
    put(text)
  }

  /// Shows `done` of `total` rows. Prints at most ten times a second.
  mutating func show(rows done: Int, of total: Int) {
    guard let seconds = elapsed() else { return }
    var text = title + Self.bar(Double(done), of: Double(total)) + "  \(done) rows"
    if seconds > 0 { text += ", \(SizeText.fixed(Double(done) / seconds, 0)) a second" }
    put(text)
  }

  /// Returns the seconds since the start, or `nil` if the line is not to be printed now.
  private mutating func elapsed() -> Double? {
    guard isShown else { return nil }
    let now = clock.now
    guard now - last >= Self.interval else { return nil }
    last = now
    return (now - start) / .seconds(1)
  }

  private static func bar(_ done: Double, of total: Double?) -> String {
    guard let total, total > 0 else { return "" }
    let share = min(1, done / total)
    let filled = Int(share * Double(width))
    return " [" + String(repeating: "#", count: filled) + String(repeating: ".", count: width - filled)
      + "] \(SizeText.fixed(share * 100, 0)) %"
  }

  /// Removes the line.
  mutating func end() {
    guard isShown, lastCount > 0 else { return }
    put("")
    StandardError.write("\r")
  }

  private mutating func put(_ text: String) {
    let blank = String(repeating: " ", count: max(0, lastCount - text.count))
    StandardError.write("\r" + text + blank)
    lastCount = text.count
  }
}
