internal import Synchronization

/// More careful ways to encode a value.
struct EncodingModes: OptionSet {
  let rawValue: UInt8
  /// No record expects a shape: its fields are in the order in which they come.
  static let exact = EncodingModes(rawValue: 1)
  /// Nested containers and super encoders have buffers of their own, which are put in when their parent ends.
  static let detached = EncodingModes(rawValue: 2)
  /// No record has a shape.
  static let maps = EncodingModes(rawValue: 4)
}

/// What became of a value apart from its bytes. Shared by all buffers that the value has: the user's code may keep an
/// error to itself, and drop the container that it came from.
final class EncodingOutcome {
  /// Thrown through the user's code to begin again.
  struct Repeat: Error {}

  /// The value has to be encoded again, in more careful modes.
  private(set) var mustRepeat = false
  private(set) var wantedModes: EncodingModes = []
  /// What went wrong for the whole value.
  private(set) var failure: (any Error)?
  /// Whether nothing became of the value yet. An atomic, as a field would be checked for exclusive access for each value.
  private let clean = Atomic<Bool>(true)

  @inline(__always)
  var isClean: Bool { clean.load(ordering: .relaxed) }

  @inline(__always)
  func reset() {
    if !isClean { clear() }
  }

  private func clear() {
    clean.store(true, ordering: .relaxed)
    mustRepeat = false
    wantedModes = []
    failure = nil
  }

  /// The error that makes the whole value be encoded again.
  func again(_ modes: EncodingModes) -> any Error {
    clean.store(false, ordering: .relaxed)
    wantedModes.formUnion(modes)
    mustRepeat = true
    return Repeat()
  }

  /// Keeps the first error.
  func fail(_ error: any Error) {
    guard failure == nil && !(error is Repeat) else { return }
    clean.store(false, ordering: .relaxed)
    failure = error
  }
}
