/// A line on standard error that says how far a long command is. Nothing is printed where standard
/// error is no terminal, or with `--json`.
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

  /// Shows `done` of `total` bytes; without a total only what is done. At most ten times a second.
  mutating func show(_ done: UInt64, of total: UInt64?, entries: UInt64? = nil) {
    guard isShown else { return }
    let now = clock.now
    guard now - last >= Self.interval else { return }
    last = now
    var text = title
    if let total, total > 0 {
      let share = min(1, Double(done) / Double(total))
      let filled = Int(share * Double(Self.width))
      text += " [" + String(repeating: "#", count: filled) + String(repeating: ".", count: Self.width - filled)
      text += "] \(SizeText.fixed(share * 100, 0)) %"
    }
    text += "  \(SizeText.text(done))"
    if let entries { text += ", \(entries) entries" }
    let seconds = (now - start) / .seconds(1)
    if seconds > 0 { text += ", \(SizeText.text(UInt64(Double(done) / seconds)))/s" }
    put(text)
  }

  /// Takes the line away.
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
