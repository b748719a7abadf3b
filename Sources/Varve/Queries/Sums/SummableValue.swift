public import Foundation

/// A field that can be summed: numbers of all kinds, and durations.
public protocol SummableValue: KeyCodable {
  /// The type of an average: `Double` for integers and floating-point numbers, and otherwise the type itself.
  associatedtype Average: Sendable

  /// The initial value of a sum.
  static var zero: Self { get }
  /// Adds the value to a sum. Throws `.sumTooLarge` if the result exceeds the integer type.
  func add(to sum: inout Self) throws
  /// The initial value of an average's total.
  static var zeroAverage: Average { get }
  /// Adds the value to the total of an average.
  func add(toAverage total: inout Average)
  /// Returns the average of `count` values with a total.
  static func average(_ total: Average, count: Int) -> Average
}

extension SummableValue where Self: FixedWidthInteger {
  /// Adds the value to a sum. Throws `.sumTooLarge`.
  public func add(to sum: inout Self) throws {
    let (result, overflows) = sum.addingReportingOverflow(self)
    guard !overflows else {
      throw DatabaseError(.sumTooLarge, "the sum is beyond \(self < 0 ? Self.min : Self.max), the end of \(Self.self)")
    }
    sum = result
  }

  /// The initial total, 0.
  public static var zeroAverage: Double { 0 }
  /// Adds the value to the total of an average.
  public func add(toAverage total: inout Double) { total += Double(self) }
  /// Returns the quotient.
  public static func average(_ total: Double, count: Int) -> Double { total / Double(count) }
}

extension SummableValue where Self: BinaryFloatingPoint {
  /// Adds the value to a sum.
  public func add(to sum: inout Self) { sum += self }
  /// The initial total, 0.
  public static var zeroAverage: Double { 0 }
  /// Adds the value to the total of an average.
  public func add(toAverage total: inout Double) { total += Double(self) }
  /// Returns the quotient.
  public static func average(_ total: Double, count: Int) -> Double { total / Double(count) }
}

extension Int: SummableValue {}
extension Int8: SummableValue {}
extension Int16: SummableValue {}
extension Int32: SummableValue {}
extension Int64: SummableValue {}
extension UInt: SummableValue {}
extension UInt8: SummableValue {}
extension UInt16: SummableValue {}
extension UInt32: SummableValue {}
extension UInt64: SummableValue {}
extension Double: SummableValue {}
extension Float: SummableValue {}

extension Decimal: SummableValue {
  /// Adds the value to a sum.
  public func add(to sum: inout Decimal) { sum += self }
  /// The initial total, 0.
  public static var zeroAverage: Decimal { 0 }
  /// Adds the value to the total of an average.
  public func add(toAverage total: inout Decimal) { total += self }
  /// Returns the quotient.
  public static func average(_ total: Decimal, count: Int) -> Decimal { total / Decimal(count) }
}

extension Duration: SummableValue {
  /// Adds the value to a sum.
  public func add(to sum: inout Duration) { sum += self }
  /// The initial total, zero.
  public static var zeroAverage: Duration { .zero }
  /// Adds the value to the total of an average.
  public func add(toAverage total: inout Duration) { total += self }
  /// Returns the quotient.
  public static func average(_ total: Duration, count: Int) -> Duration { total / count }
}
