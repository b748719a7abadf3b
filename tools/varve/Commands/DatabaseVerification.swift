import Varve
import VarveEngine
import VarveInspection

/// Checks a database without changing it: every checksum, order and count of every file, and the counts of objects.
struct DatabaseVerification {
  /// What was found.
  struct Findings {
    /// The faults. Of wrong counts at most 1,000 are listed.
    var faults: [FaultRow]
    /// The number of all faults.
    var count: Int

    var text: String { count == 0 ? "no damage found" : "\(Count.text(count, "fault")) found" }
  }

  private let database: DatabaseArgument
  private let output: OutputOption

  init(path: String, _ output: OutputOption) {
    database = DatabaseArgument(path: path)
    self.output = output
  }

  func run() throws -> Findings {
    var faults: [FaultRow]
    var hasObjects = false
    do {
      faults = try database.reading { engine in
        hasObjects = engine.families.contains { $0.name == "catalog" }
        var bar = ProgressBar("verify", isQuiet: output.json)
        defer { bar.end() }
        let report = try engine.verify { bar.show($0.bytesDone, of: $0.bytesTotal) }
        return report.faults.map { FaultRow(file: $0.file, offset: $0.offset, message: $0.message) }
      }
    } catch let error as EngineError where error.code == .corruption {
      faults = [FaultRow(error)]
    }
    var count = faults.count
    if hasObjects {
      let (found, all) = try countFaults(isDamaged: !faults.isEmpty)
      faults += found
      count += all
    }
    return Findings(faults: faults, count: count)
  }

  /// The maximum number of wrong counts that are printed. All are counted.
  private static let countLimit = 1_000

  /// Returns the differences between the entries of counted parts and their counts, and how many there are. In a
  /// damaged database an entry or a record that can't be read is one of the faults that were found already.
  private func countFaults(isDamaged: Bool) throws -> (faults: [FaultRow], count: Int) {
    var faults: [FaultRow] = []
    do {
      let review = try database.inspecting { inspector in
        try inspector.verifyCounts(limit: Self.countLimit) { error in
          if !isDamaged { faults.append(FaultRow(file: nil, offset: nil, message: ErrorRow(any: error).text)) }
        }
      }
      let count = faults.count + review.differenceCount
      return (faults + review.differences.map { FaultRow($0) }, count)
    } catch let error as DatabaseError where error.code == .corruption {
      if isDamaged { return ([], 0) }
      return ([FaultRow(file: nil, offset: nil, message: ErrorRow(error).text)], 1)
    } catch let error as DatabaseError where error.code == .unsupportedVersion {
      StandardError.write(output.json ? "" : "varve: counts were not compared: \(ErrorRow(error).text)\n")
      return ([], 0)
    }
  }
}

/// A damaged location, as the command prints it.
struct FaultRow: Encodable {
  let file: String?
  let offset: UInt64?
  let message: String
  /// The extension and the part that a wrong count belongs to, the keys, and both numbers. Only set for wrong counts.
  var `extension`: String?
  var part: String?
  var range: String?
  var counted: Int?
  var found: Int?

  init(file: String?, offset: UInt64?, message: String) {
    self.file = file
    self.offset = offset
    self.message = message
  }

  init(_ difference: CountReview.Difference) {
    self.init(file: nil, offset: nil, message: PrintableText.text("\(difference)"))
    `extension` = difference.extensionName
    part = difference.part
    range = difference.range
    counted = difference.counted
    found = difference.found
  }

  init(_ error: EngineError) { self.init(file: error.file, offset: error.offset, message: error.message) }

  /// The fault as text: `FILE:OFFSET: message`.
  var text: String {
    let location = (file ?? "database") + (offset.map { ":\($0)" } ?? "")
    return "\(location): \(message)"
  }
}
