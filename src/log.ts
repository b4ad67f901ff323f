/** The log: JSON lines on stderr. Never a secret, a token or a cookie. */
import { pino, destination, type Logger } from 'pino'

export type Log = Logger

export function createLog(level: string): Log {
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
