public import Varve

extension DatabaseOptions {
  /// The options of a database whose callers wait for the writer as long as that takes.
  ///
  /// On a slow machine, a test that makes many callers wait exceeds the usual time.
  public static var patient: DatabaseOptions {
    var options = DatabaseOptions()
    options.writerTimeout = .seconds(86_400)
    return options
  }
}
