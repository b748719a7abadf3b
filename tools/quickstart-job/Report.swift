import Foundation

/// Prints the report of the job.
enum Report {
  static func step(_ name: String, _ text: String) {
    print("== \(name)\(text.isEmpty ? "" : ": ")\(text)")
    flush()
  }

  static func line(_ text: String) {
    print("   \(text)")
    flush()
  }

  static func writes(_ count: Int, _ seconds: Double, _ what: String) {
    let rate = seconds > 0 ? Double(count) / seconds : 0
    line("\(count) writes \(what), \(fixed(seconds, 1)) s, \(fixed(rate / 1000, 0)) thousand a second")
  }

  static func packages(_ count: Int, _ outcome: PackageChecks.Outcome) {
    line(
      "packages by id \(rate(count, outcome.byID)), in order \(rate(count, outcome.inOrder)) thousand a second")
    let queries = outcome.queries
    line("each through an index, and as a scan of \(seconds(queries.scan)) s finds them:")
    for (timing, what) in [
      (queries.byMaintainer, "maintainer"), (queries.bySection, "section and installed size"),
      (queries.byName, "beginning of the name"),
    ] {
      let found = rate(timing.foundCount, timing.duration)
      line("  \(timing.queryCount) queries by \(what), \(found) thousand packages a second")
    }
    guard let largest = queries.sections.first else { return }
    line(
      "largest section: \(largest.name), \(largest.count) packages, "
        + "\(bytes(UInt64(max(0, largest.installedSize)) * 1_024)) installed")
  }

  static func edges(_ outcome: PackageEdgeChecks.Outcome) {
    line(
      "\(outcome.edgeCount) edges of dependencies, counted in \(seconds(outcome.counting)) s; \(outcome.dangling) lead to no package"
    )
    let most = outcome.mostNeeded
    if most.name.isEmpty { return }
    line(
      "most needed: \(most.name), by \(most.count) packages; \(most.removed) would go with it, found out in "
        + "\(seconds(most.removing)) s")
  }

  static func lists(_ outcome: PackageListChecks.Outcome) {
    line(
      "\(outcome.sectionCount) sections and \(outcome.offsetCount) offsets by a view in \(seconds(outcome.byView, 3)) s, "
        + "by a counted index in \(seconds(outcome.byIndex, 3)) s; lists of both have moved a package of section "
        + "\(outcome.moved.section) from \(outcome.moved.from) to \(outcome.moved.to)")
  }

  /// Returns a rate in thousands per second.
  static func rate(_ count: Int, _ duration: Duration) -> String {
    let seconds = duration / .seconds(1)
    return seconds > 0 ? fixed(Double(count) / seconds / 1_000, 0) : "-"
  }

  static func bytes(_ count: UInt64) -> String { "\(fixed(Double(count) / 1_048_576, 1)) MiB" }

  static func quotient(_ numerator: UInt64, _ denominator: UInt64) -> String {
    denominator == 0 ? "-" : fixed(Double(numerator) / Double(denominator), 2)
  }

  static func seconds(_ duration: Duration, _ digits: Int = 1) -> String { fixed(duration / .seconds(1), digits) }

  static func fixed(_ value: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", value) }

  /// Flushes each line at once, also through a pipe, so that a job of minutes can be watched.
  private static func flush() { fflush(nil) }
}
