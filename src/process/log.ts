/** The log: JSON lines on stderr. Secrets, tokens and cookies are redacted. */
import { pino, destination, type Logger } from 'pino'

export function createLog(level: string): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: [
        'password',
        'token',
        'secret',
        'authorization',
        'cookie',
        '*.password',
        '*.token',
        '*.secret',
        '*.authorization',
        '*.cookie',
      ],
    },
    destination({ fd: 2, sync: true }),
  )
}
