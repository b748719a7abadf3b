internal import Varve

/// Formats the keys of entries of any part as text, for reports.
///
/// An entry begins with parts of a key if the extension is one of ours, and may continue with other bytes. A
/// separator of runs ends anywhere.
enum EntryText {
  /// Returns the text of a key: its parts as `KeyText` writes them, and everything else as hexadecimal digits.
  static func text(of key: [UInt8]) -> String {
    let parts = KeyPart.leadingParts(of: key)
    let end = parts.last?.end ?? 0
    var texts = parts.map { KeyText.text(of: $0.part) }
    if end < key.count || texts.isEmpty { texts.append(hexadecimal(key[end...])) }
    return texts.count == 1 ? texts[0] : "(\(texts.joined(separator: ", ")))"
  }

  /// Returns the text of a range, for example `from ("Woolf", 1927) up to the end`.
  static func text(of range: StorageRange) -> String {
    let lower = range.lower.isEmpty ? "from the start" : "from \(text(of: range.lower))"
    let upper = range.upper.map { "up to \(text(of: $0))" } ?? "up to the end"
    return "\(lower) \(upper)"
  }

  static func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    bytes.reduce(into: "0x") { $0 += ($1 < 16 ? "0" : "") + String($1, radix: 16) }
  }
}

extension RunFault {
  /// What was found and what was expected.
  var text: String {
    switch self {
    case .count(let range, let counted, let found):
      "the run \(EntryText.text(of: range)) counts \(counted) entries, and has \(found)"
    case .damagedCount(let range, let found):
      "the count of the run \(EntryText.text(of: range)) is damaged, and the run has \(found) entries"
    case .noRuns(let found): "there are \(found) entries, and no counts"
    case .strayKey(let key): "the counts have the key \(EntryText.hexadecimal(key)), which is not that of a run"
    case .isLarge(let range, let found): "the run \(EntryText.text(of: range)) has \(found) entries"
    }
  }
}
