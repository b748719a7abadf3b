import Foundation

extension UnsafeRawBufferPointer {
  /// The bytes as C's `char *`, which the peers' C APIs take.
  @inline(__always)
  var characters: UnsafePointer<CChar>? { baseAddress?.assumingMemoryBound(to: CChar.self) }
}

/// Returns the text of a `char **errptr`, which is freed and reset.
func takeMessage(_ message: inout UnsafeMutablePointer<CChar>?) -> String {
  guard let text = message else { return "no message" }
  defer {
    free(text)
    message = nil
  }
  return String(cString: text)
}
