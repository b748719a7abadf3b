internal import Synchronization

/// More careful methods of encoding a value.
struct EncodingModes: OptionSet {
  let rawValue: UInt8
  /// No record expects a shape: its fields are written in the order in which they are encoded.
  static let exact = EncodingModes(rawValue: 1)
  /// Nested containers and super encoders have their own buffers, which are inserted when their parent ends.
  static let detached = EncodingModes(rawValue: 2)
  /// No record has a shape.
  static let maps = EncodingModes(rawValue: 4)
}

/// The outcome of encoding a value, apart from its bytes. All buffers of the value share it, because the user's code
/// may ignore an error, and release the container that threw it.
final class EncodingOutcome {
  /// An error that is thrown through the user's code to restart the encoding.
  struct Repeat: Error {}

  /// Whether the value has to be encoded again, in more careful modes.
  private(set) var mustRepeat = false
  private(set) var wantedModes: EncodingModes = []
  /// The error for the whole value.
  private(set) var failure: (any Error)?
  /// Whether neither a failure nor a repetition was noted. It is an atomic because a field would be checked for
  /// exclusive access for each value.
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

  /// Returns the error that causes the whole value to be encoded again.
  func again(_ modes: EncodingModes) -> any Error {
    clean.store(false, ordering: .relaxed)
    wantedModes.formUnion(modes)
    mustRepeat = true
    return Repeat()
  }

  /// Notes an error; only the first one is kept.
  func fail(_ error: any Error) {
    guard failure == nil && !(error is Repeat) else { return }
    clean.store(false, ordering: .relaxed)
    failure = error
  }
}
