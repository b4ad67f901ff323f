/** Interfaces of structured logs. Each line has details, then a message. */

/** The log that is passed to a driver. */
export interface DriverLog {
  debug(details: object, message: string): void
  info(details: object, message: string): void
  warn(details: object, message: string): void
  error(details: object, message: string): void
}

export interface Log extends DriverLog {
  /** Returns a log that adds these details to each line. */
  child(details: Readonly<Record<string, unknown>>): Log
}
