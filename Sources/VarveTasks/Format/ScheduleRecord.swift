internal import Foundation

/// A schedule as the database stores it, in the part `config` under 'S' and its name.
///
/// ```
///  0  form (1), 1      1  last slot in ms since 1970 (8)      9  its task (8), 0: none
///  17 expression (sized)      zone (sized)      kind (sized)      queue (sized)      rules as JSON (sized)
///     1 (1), if the schedule is inactive; otherwise nothing
/// ```
/// On disk: never change.
struct ScheduleRecord: Hashable, Sendable {
  var expression: String
  var zone: String
  var kind: String
  var queue: String
  var rules: ScheduleRules
  /// The scheduled time up to which all times were processed.
  var lastSlot: Int64
  var lastTask: TaskID?
  /// Whether a scheduler has run for a time without this schedule.
  var isInactive = false

  private static let form: UInt8 = 1

  init(expression: String, zone: String, kind: String, queue: String, rules: ScheduleRules, lastSlot: Int64) {
    self.expression = expression
    self.zone = zone
    self.kind = kind
    self.queue = queue
    self.rules = rules
    self.lastSlot = lastSlot
  }

  var bytes: [UInt8] {
    var bytes: [UInt8] = [Self.form]
    bytes.append(time: lastSlot)
    bytes.append(number: lastTask?.rawValue ?? 0)
    for text in [expression, zone, kind, queue] { bytes.append(sized: text.utf8) }
    bytes.append(sized: Array((try? JSONEncoder().encode(rules)) ?? Data()))
    if isInactive { bytes.append(1) }
    return bytes
  }

  init(_ bytes: [UInt8]) throws(DamagedTask) {
    var reader = ByteReader(bytes)
    let form = try reader.byte()
    if form != Self.form { throw DamagedTask(what: "a schedule has form \(form), expected \(Self.form)", bytes: bytes) }
    lastSlot = try reader.time()
    let task: UInt64 = try reader.number()
    lastTask = task == 0 ? nil : TaskID(rawValue: task)
    expression = try reader.text()
    zone = try reader.text()
    kind = try reader.text()
    queue = try reader.text()
    rules = (try? JSONDecoder().decode(ScheduleRules.self, from: Data(try reader.sized()))) ?? ScheduleRules()
    isInactive = reader.remaining > 0 ? try reader.byte() == 1 : false
  }
}
