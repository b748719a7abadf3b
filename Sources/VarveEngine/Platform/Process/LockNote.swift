/// The text of the file `LOCK`: which process has the database open, and whether it takes requests of others.
///
/// # Format
/// One line of ASCII, written when the lock is taken, and removed before it is released:
/// `varve 1 PROCESS START NAMESPACE STATE`, where PROCESS is the process id, START is when the process began, as the
/// system counts it, and NAMESPACE is that of the process id, all three in decimal. STATE is `opens`, `requests` if
/// the engine takes requests, or `alone` if it takes none. On disk: never change.
///
/// Nothing depends on the text but messages, and how long another process waits for an answer. An engine of an earlier
/// version leaves the file empty, and a full disk may, too.
package struct LockNote: Sendable, Hashable {
  /// Whether the engine takes requests of other processes.
  package enum State: String, Sendable {
    case opens, requests, alone
  }

  let place: ProcessPlace
  package let state: State

  /// Creates the note of this process.
  init(_ state: State) {
    place = .current
    self.state = state
  }

  /// Reads the note of the engine that has the database at a path open. Returns `nil` if there is none.
  package init?(at path: String) {
    guard let file = try? PosixFileSystem().openFile(path + "/" + FileName.lock.name, writable: false) else {
      return nil
    }
    defer { file.close() }
    var bytes = [UInt8](repeating: 0, count: Self.sizeMaximum)
    guard let count = try? file.read(into: &bytes, at: 0) else { return nil }
    self.init(text: String(decoding: bytes.prefix(count), as: UTF8.self))
  }

  init?(text: String) {
    let words = text.split(separator: " ", omittingEmptySubsequences: false)
    guard text.hasSuffix("\n"), words.count == 6, words[0] == "varve", words[1] == "1",
      let number = UInt64(words[2]), let start = UInt64(words[3]), let namespace = UInt64(words[4]),
      let state = State(rawValue: String(words[5].dropLast()))
    else { return nil }
    place = ProcessPlace(process: ProcessIdentity(number: number, start: start), namespace: namespace)
    self.state = state
  }

  var text: String {
    "varve 1 \(place.process.number) \(place.process.start) \(place.namespace) \(state.rawValue)\n"
  }

  /// The size of the longest text, and a few bytes more.
  static let sizeMaximum = 128

  /// The process, for messages. A number of another container would lead to a process that has nothing to do with it.
  package var who: String {
    place.isVisible ? "process \(place.process.number)" : "a process of another container"
  }

  /// Whether the process certainly has ended. Nothing is known of one in another container.
  package var hasEnded: Bool { place.hasEnded }

  /// Writes the text into the locked file. A failure, as on a full disk, leaves the note incomplete.
  func write(to lock: (any FileLock)?) { (lock as? PosixFileLock)?.write(text) }
}
