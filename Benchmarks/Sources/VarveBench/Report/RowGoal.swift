import Foundation

/// The goal of a row, and the result of the row that it limits.
struct RowGoal: Codable {
  enum Result: String, Codable {
    /// Operations per second, of which there must be no fewer.
    case rate = "ops_per_sec"
    case micros = "micros_per_op"
    /// The time beyond that of the same operation without what is measured.
    case microsBeyond = "micros_beyond"
    case bytes = "bytes_per_op"
  }

  var result: Result
  var limit: Double

  init(_ result: Result, _ limit: Double) {
    self.result = result
    self.limit = limit
  }

  /// Returns the result of a row, or nil if the row does not have it.
  func found(_ row: Row) -> Double? {
    switch result {
    case .rate: row.opsPerSecond
    case .micros: row.microsPerOp
    case .microsBeyond: row.microsBeyond
    case .bytes: row.bytesPerOp
    }
  }

  func isMet(_ row: Row) -> Bool? {
    guard let found = found(row) else { return nil }
    return result == .rate ? found >= limit : found <= limit
  }

  /// The goal as text, such as `goal 150000 ops/sec`.
  var text: String {
    switch result {
    case .rate: String(format: "goal %.0f ops/sec", limit)
    case .micros: String(format: "goal %g micros", limit)
    case .microsBeyond: String(format: "goal %g micros beyond", limit)
    case .bytes: String(format: "goal %.1f bytes", limit)
    }
  }
}
