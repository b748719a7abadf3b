internal import Foundation

/// A change that another process requests of the tasks and rows of a database.
///
/// On disk as JSON: names of cases and labels never change.
enum InboxCommand: Codable, Sendable {
  case enqueue(kind: String, version: UInt16, payload: Data, options: TaskOptions)
  case cancel(TaskQuery)
  case retry(TaskQuery)
  case revive(TaskQuery)
  case delete(TaskQuery)
  case signal(String)
  case pause(QueueName)
  case resume(QueueName)
  case drain(QueueName)
  /// Lets the tasks of a copy of a database run.
  case release
  /// Sets an object of a collection, given as JSON.
  case set(collection: String, object: Data)
  /// Removes the object with an identifier, given as JSON.
  case remove(collection: String, id: Data)
  /// Writes what each command of the file has changed into a file `.answer`. The first command of its file.
  case answer
}

/// The error for a file in the inbox that is not a file of commands, or is damaged.
struct DamagedInbox: Error, CustomStringConvertible {
  let what: String
  var description: String { "the file is not a file of the inbox, or damaged: \(what)" }
}

/// A file of the inbox: commands that are applied together and exactly once.
///
/// ```
///  0   "VARVEIN1" (8)
///  8   id of the file (16), which is also part of its name
///  24  for each command: length (4), checksum (8): StableHash of the body; body: JSON
/// ```
/// Numbers are big-endian. On disk: never change. `InboxFile+Names.swift` describes the name.
struct InboxFile {
  static let magic = Array("VARVEIN1".utf8)
  static let suffix = ".commands"
  /// What the name of the answer to a file ends in.
  static let answerSuffix = ".answer"
  /// What the name of a file ends in as long as it is not complete.
  static let partSuffix = ".part"
  /// A larger file is refused.
  static let sizeMaximum = 64 << 20

  let id: [UInt8]
  var commands: [InboxCommand]

  init(id: [UInt8], commands: [InboxCommand]) {
    self.id = id
    self.commands = commands
  }

  func bytes() throws -> [UInt8] {
    var bytes = Self.magic + id
    let encoder = JSONEncoder()
    for command in commands {
      let body = Array(try encoder.encode(command))
      bytes.append(number: UInt32(body.count))
      bytes.append(number: StableHash.of(body))
      bytes.append(contentsOf: body)
    }
    return bytes
  }

  /// Reads a file from its bytes. Throws `DamagedInbox` if they are not those of a file of commands.
  init(_ bytes: [UInt8]) throws {
    guard bytes.count >= 24, bytes.starts(with: Self.magic) else {
      throw DamagedInbox(what: "it does not begin with \"VARVEIN1\" and an id")
    }
    id = Array(bytes[8..<24])
    commands = []
    var reader = ByteReader(bytes, at: 24)
    while reader.remaining > 0 {
      let offset = reader.offset
      let size = Int(try reader.number(UInt32.self))
      let sum: UInt64 = try reader.number()
      guard size <= reader.remaining else {
        throw DamagedInbox(
          what: "the command at byte \(offset) has \(size) bytes, and \(reader.remaining) are left")
      }
      let body = Array(bytes[reader.offset..<(reader.offset + size)])
      guard StableHash.of(body) == sum else {
        throw DamagedInbox(what: "the checksum of the command at byte \(offset) is another one")
      }
      do { commands.append(try JSONDecoder().decode(InboxCommand.self, from: Data(body))) } catch {
        throw DamagedInbox(what: "the command at byte \(offset) is unknown: \(error)")
      }
      reader = ByteReader(bytes, at: reader.offset + size)
    }
  }

  /// Whether the sender waits for an answer.
  var wantsAnswer: Bool {
    if case .answer = commands.first { true } else { false }
  }

  /// Whether a process can apply the commands that does not know the types of the program's objects.
  var needsNoTypes: Bool {
    commands.allSatisfy { command in
      switch command {
      case .set, .remove: false
      case .enqueue, .cancel, .retry, .revive, .delete, .signal, .pause, .resume, .drain, .release, .answer: true
      }
    }
  }
}
