internal import Foundation
public import Varve

/// What a process does with the files of an inbox whose commands it applies.
extension TaskInbox {
  /// Applies the files that wait, in their order, in a process that runs no scheduler. Returns whether none is left.
  ///
  /// It stops at the first file that sets or removes objects: only a program that has accepted their types can apply
  /// it. No middleware sees the tasks that are enqueued. Complexity: one transaction for each file.
  ///
  /// Throws the errors of the transactions, and those of the file system.
  @_spi(Tool)
  public func applyWaiting(to database: Database) throws -> Bool {
    let clock = SystemSchedulerClock()
    while true {
      let (names, areLeft) = files.applicableFiles(directory)
      for name in names {
        do {
          let file = try read(name)
          guard file.needsNoTypes else { return false }
          let changed = try database.write(label: "tasks: inbox", durability: .power) { tx in
            try file.apply(to: tx, [:], WallTime.milliseconds(clock.wallNow))
          }
          try answer(file, changed)
          try files.remove(directory + "/" + name)
        } catch let refusal as InboxRefusal { try refuse(name, refusal.cause) }
      }
      if !areLeft { return true }
    }
  }

  /// Reads a file of commands. Throws `InboxRefusal` if it has other content.
  func read(_ name: String) throws -> InboxFile {
    let path = directory + "/" + name
    // Reading a pipe could wait without end.
    if try !files.isFile(path) { throw InboxRefusal(cause: DamagedInbox(what: "it is not a regular file")) }
    let size = try files.size(path)
    let bytes = size > InboxFile.sizeMaximum ? [] : try files.read(path)
    do {
      if size > InboxFile.sizeMaximum {
        throw TaskError.tooLarge(what: "a file of the inbox", size: size, limit: InboxFile.sizeMaximum)
      }
      let file = try InboxFile(bytes)
      guard InboxFile.id(ofName: name) == file.id else { throw DamagedInbox(what: "its id is not that of its name") }
      return file
    } catch { throw InboxRefusal(cause: error) }
  }

  /// Writes the answer to a file whose commands were applied, if its sender wants one.
  ///
  /// If the process dies before the file of commands is removed, the answer is written again.
  func answer(_ file: InboxFile, _ changed: [Int]) throws {
    guard file.wantsAnswer else { return }
    let answer = Array(try JSONEncoder().encode(AnswerRecord(applied: changed)))
    try files.writeWhole(answer, directory + "/" + InboxFile.answerName(file.id))
  }

  /// Moves a file to `refused`, beside a text with the reason. Both survive a power loss when the call returns.
  func refuse(_ name: String, _ error: any Error) throws {
    let path = directory + "/" + name
    try files.createDirectory(refusedDirectory)
    let target = try refusedDirectory + "/" + freeName(path, name)
    let reason = target + ".txt"
    try files.write(Array("\(error)\n".utf8), reason)
    try files.sync(reason)
    try files.move(path, to: target)
    try files.syncDirectory(refusedDirectory)
    try files.syncDirectory(directory)
  }

  /// Returns the name that a refused file gets. A file replaces one that was refused before, but a directory can't.
  private func freeName(_ path: String, _ name: String) throws -> String {
    if try files.isFile(path) { return name }
    let taken = Set(files.names(refusedDirectory))
    var (free, number) = (name, 1)
    while taken.contains(free) {
      number += 1
      free = "\(name).\(number)"
    }
    return free
  }
}
