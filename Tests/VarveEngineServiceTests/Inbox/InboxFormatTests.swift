import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of the bytes of requests, answers, notes and names.
struct InboxFormatTests {
  private static let requests: [EngineRequest] = [
    .statistics, .flush, .compact(family: nil, from: nil, to: nil), .compact(family: "é", from: [], to: [255, 0]),
    .checkpoint(target: "/backup/é"),
  ]

  private func decode(_ bytes: [UInt8]) throws(EngineError) -> RequestFile {
    try bytes.withByteView { (view) throws(EngineError) in try RequestFile(decoding: view, file: "f") }
  }

  private func decodeAnswer(_ bytes: [UInt8]) throws(EngineError) -> AnswerFile {
    try bytes.withByteView { (view) throws(EngineError) in try AnswerFile(decoding: view, file: "f") }
  }

  @Test func `each request is read as it was written, and no part of it is`() throws {
    for (number, request) in Self.requests.enumerated() {
      let file = RequestFile(id: UInt64(number) &* 0x9e37_79b9_7f4a_7c15, sender: .current, request: request)
      let bytes = file.encode()
      #expect(try decode(bytes) == file)
      for count in 0..<bytes.count { #expect(throws: EngineError.self) { try decode(Array(bytes[..<count])) } }
      for index in bytes.indices {
        var damaged = bytes
        damaged[index] ^= 0x40
        #expect(throws: EngineError.self) { try decode(damaged) }
      }
    }
  }

  @Test func `the bytes of a request are those of the format`() {
    let sender = ProcessPlace(process: ProcessIdentity(number: 2, start: 3), namespace: 4)
    let bytes = RequestFile(id: 1, sender: sender, request: .checkpoint(target: "/a")).encode()
    #expect(String(decoding: bytes[..<8], as: UTF8.self) == "VARVEREQ")
    #expect(bytes[8..<12] == [1, 0, 0, 0])
    let numbers: [UInt8] = [1, 2, 3, 4].flatMap { [$0, 0, 0, 0, 0, 0, 0, 0] }
    #expect(Array(bytes[16...]) == numbers + [4, 2] + Array("/a".utf8))
    let answer = AnswerFile(id: 1, answer: .runs(done: 5, total: 6)).encode()
    #expect(String(decoding: answer[..<8], as: UTF8.self) == "VARVEANS")
    #expect(Array(answer[16...]) == [1, 0, 0, 0, 0, 0, 0, 0, 2, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0])
  }

  @Test func `each answer is read as it was written, and no part of it is`() throws {
    var report = CheckpointReport(sequence: SequenceNumber(11))
    report.tablesLinked = 1
    report.tablesCopied = 2
    report.tableBytesCopied = 3
    report.segmentsCopied = 4
    report.logBytesCopied = .max
    let error = EngineError(.noSpace, "full", cause: EngineError(.inputOutput, "why"), file: "/f")
    for answer in [
      RequestAnswer.waits, .runs(done: 1, total: .max), .statistics("{}"), .flushed, .checkpoint(report),
      .failed(error),
    ] {
      let bytes = AnswerFile(id: 3, answer: answer).encode()
      let read = try decodeAnswer(bytes)
      #expect(read.id == 3 && read.answer.isFinal == answer.isFinal)
      switch (answer, read.answer) {
      case (.checkpoint(let first), .checkpoint(let second)): #expect(first == second)
      case (.failed, .failed(let found)):
        #expect(found.code == .noSpace && found.file == "/f" && found.message.hasPrefix("full; because inputOutput"))
      default: #expect("\(answer)" == "\(read.answer)")
      }
      for count in 0..<bytes.count { #expect(throws: EngineError.self) { try decodeAnswer(Array(bytes[..<count])) } }
      for index in bytes.indices {
        var damaged = bytes
        damaged[index] ^= 0x40
        #expect(throws: EngineError.self) { try decodeAnswer(damaged) }
      }
    }
  }

  @Test func `a name has one spelling`() {
    let name = InboxFileName(0xab, .request)
    #expect(name.name == "00000000000000ab.request" && InboxFileName(name.name) == name)
    #expect(name.part.name == "00000000000000ab.request.part" && InboxFileName(name.part.name) == name.part)
    for text in [
      "ab.request", "00000000000000AB.request", "00000000000000ab", "00000000000000ab.other",
      "0000000000000000ab.request",
      "+0000000000000ab.request", "00000000000000ab.request.part.part", ".request", "",
    ] {
      #expect(InboxFileName(text) == nil, "\(text)")
      #expect(FileName(text) == nil, "\(text)")
    }
    #expect(FileName(name.name) == .inbox(name) && FileName(name.name)?.name == name.name)
  }

  @Test func `a note is read as it was written, and other texts are none`() {
    let note = LockNote(.requests)
    #expect(LockNote(text: note.text) == note && note.text.utf8.count < LockNote.sizeMaximum)
    #expect(note.who == "process \(note.place.process.number)")
    for text in [
      "", "\n", "varve 1 2 3 4 requests", "varve 2 2 3 4 requests\n", "varve 1 2 3 4 other\n", "varve 1 2 3\n",
    ] {
      #expect(LockNote(text: text) == nil, "\(text)")
    }
    #expect(LockNote(text: "varve 1 2 3 4 alone\n")?.who == "a process of another container")
  }
}
