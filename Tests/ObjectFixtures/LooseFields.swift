/// Encodes the given fields in the given order.
struct LooseFields: Codable, Hashable {
  var fields: [Key: Int]
  var order: [Key]

  enum Key: String, CodingKey, CaseIterable { case a, b, c, d, e, f }

  init(_ order: [Key]) {
    self.order = order
    fields = Dictionary(uniqueKeysWithValues: order.map { ($0, $0.rawValue.utf8.first.map(Int.init) ?? 0) })
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: Key.self)
    order = container.allKeys
    fields = [:]
    for key in order { fields[key] = try container.decode(Int.self, forKey: key) }
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: Key.self)
    for key in order { try container.encode(fields[key] ?? 0, forKey: key) }
  }
}
