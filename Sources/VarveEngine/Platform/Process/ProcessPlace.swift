/// A process, and the namespace in which the system numbers it.
struct ProcessPlace: Sendable, Hashable {
  let process: ProcessIdentity
  let namespace: UInt64

  static var current: ProcessPlace { ProcessPlace(process: .current, namespace: ProcessIdentity.namespace) }

  init(process: ProcessIdentity, namespace: UInt64) {
    self.process = process
    self.namespace = namespace
  }

  /// Whether the process is visible here: not one of another container.
  var isVisible: Bool { namespace != 0 && namespace == ProcessIdentity.namespace }

  /// Whether the process certainly has ended. Nothing is known of one in another container.
  var hasEnded: Bool { isVisible && !process.isAlive }
}
