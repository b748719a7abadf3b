internal import Foundation
internal import Synchronization

/// The times of sending of a process, each of them later than those before. Safe from any thread.
final class SendingTimes: Sendable {
  static let ofProcess = SendingTimes()

  private let last = Mutex<UInt64>(0)

  /// Returns a time in nanoseconds since 1970: now by the system's clock, but later than all times before.
  func take(_ now: Date = Date()) -> UInt64 {
    let seconds = now.timeIntervalSince1970
    // Up to the year 2540.
    let clock = UInt64(seconds.isNaN ? 0 : min(max(seconds, 0), 1.8e10) * 1e9)
    return last.withLock { last in
      last = max(last + 1, clock)
      return last
    }
  }
}

/// The names of the files of an inbox, whose order is that in which they are applied.
///
/// ```
/// TIME-ID.commands    TIME: the time of sending, in nanoseconds since 1970, as 16 hexadecimal digits
///                     ID: the id of the file, as 32 hexadecimal digits
/// ID.answer           the answer to the file
/// ```
/// The times of one process ascend, also if its clock is set back, so that its files are applied in the order in which
/// it has sent them. Those of several processes are in the order of their clocks. A file that an earlier version has
/// sent is named `ID.commands`, and comes before all others. On disk: never change.
extension InboxFile {
  /// Returns the name of the file with an id that is sent at a time.
  static func name(_ id: [UInt8], sentAt time: UInt64) -> String {
    let digits = String(time, radix: 16)
    return String(repeating: "0", count: timeDigits - digits.count) + digits + "-" + Self.digits(id) + suffix
  }

  /// Returns the name of the answer to the file with an id.
  static func answerName(_ id: [UInt8]) -> String { digits(id) + answerSuffix }

  /// Returns the id that is part of a name, or `nil` if the name is not that of a file of commands.
  static func id(ofName name: String) -> [UInt8]? {
    guard name.hasSuffix(suffix) else { return nil }
    var digits = Array(name.utf8.dropLast(suffix.utf8.count))
    if isTimed(name) { digits.removeFirst(timeDigits + 1) }
    guard digits.count == 32 else { return nil }
    var id: [UInt8] = []
    for index in stride(from: 0, to: 32, by: 2) {
      guard let high = value(digits[index]), let low = value(digits[index + 1]) else { return nil }
      id.append(high << 4 | low)
    }
    return id
  }

  /// Returns whether the file with the left name is applied before that with the right name.
  static func precedes(_ left: String, _ right: String) -> Bool {
    let (isTimed, otherIsTimed) = (isTimed(left), isTimed(right))
    return isTimed == otherIsTimed ? left < right : otherIsTimed
  }

  private static let timeDigits = 16

  private static func isTimed(_ name: String) -> Bool {
    let bytes = name.utf8.prefix(timeDigits + 1)
    return bytes.count == timeDigits + 1 && bytes.last == UInt8(ascii: "-")
      && bytes.dropLast().allSatisfy { value($0) != nil }
  }

  private static func digits(_ id: [UInt8]) -> String {
    id.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    default: nil
    }
  }
}
