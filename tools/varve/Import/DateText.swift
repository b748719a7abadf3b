import Varve
import VarveInspection

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// Parses dates as SQLite's functions and the programs around it write them.
///
/// ```
/// 2026-02-03
/// 2026-02-03 04:05    2026-02-03T04:05
/// 2026-02-03 04:05:06    2026-02-03 04:05:06.789
/// ```
/// Each may end in `Z` or an offset from UTC, `+01:00` or `+0100`, also after a blank. Without an offset it is UTC.
enum DateText {
  /// Returns the date of a text, or `nil` if the text is not a date.
  static func date(_ text: String) -> Date? {
    var bytes = Array(text.utf8)
    guard let offset = removeZone(from: &bytes) else { return nil }
    guard bytes.count >= 10, bytes[..<10].contains(UInt8(ascii: "-")) else { return nil }
    var strict = Array(bytes[..<10])
    guard bytes.count > 10 else { return date(strict + Array("T00:00:00Z".utf8), offset) }
    guard bytes[10] == UInt8(ascii: " ") || bytes[10] == UInt8(ascii: "T") else { return nil }
    strict += Array("T".utf8) + bytes[11...]
    if bytes.count == 16 { strict += Array(":00".utf8) }
    return date(strict + Array("Z".utf8), offset)
  }

  /// Returns the date of a text in the form of keys, whose parser is stricter and checks the calendar.
  private static func date(_ strict: [UInt8], _ offset: Double) -> Date? {
    guard let key = try? KeyText.key(String(decoding: strict, as: UTF8.self), as: .date),
      let date = try? Date.decoded(from: key)
    else { return nil }
    return date.addingTimeInterval(-offset)
  }

  /// Removes the zone from the end, and returns its offset in seconds east of UTC, or `nil` if it is not valid.
  private static func removeZone(from bytes: inout [UInt8]) -> Double? {
    func removeBlank() { if bytes.last == UInt8(ascii: " ") { bytes.removeLast() } }
    if bytes.last == UInt8(ascii: "Z") {
      bytes.removeLast()
      removeBlank()
      return 0
    }
    // The search begins after the date, which contains minus signs itself.
    guard bytes.count > 16,
      let sign = bytes[16...].lastIndex(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") })
    else { return 0 }
    let digits = bytes[(sign + 1)...].filter { $0 != UInt8(ascii: ":") }
    let size = bytes.count - sign - 1
    guard digits.count == 4, digits.allSatisfy({ (0x30...0x39).contains($0) }),
      size == 4 || (size == 5 && bytes[sign + 3] == UInt8(ascii: ":"))
    else { return nil }
    let numbers = digits.map { Int($0) - 0x30 }
    let hours = numbers[0] * 10 + numbers[1]
    let minutes = numbers[2] * 10 + numbers[3]
    guard hours < 24, minutes < 60 else { return nil }
    let isWest = bytes[sign] == UInt8(ascii: "-")
    bytes.removeSubrange(sign...)
    removeBlank()
    return Double((isWest ? -1 : 1) * (hours * 3_600 + minutes * 60))
  }
}
