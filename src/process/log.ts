/** The log: JSON lines on stderr. Secrets, tokens and cookies are redacted. */
import { pino, destination, type Logger } from 'pino'
import type { LogTail } from '../gateway/log-tail.js'

/** `tail` gets each line as well. */
export function createLog(level: string, tail?: LogTail): Logger {
  const output = destination({ fd: 2, sync: true })
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
    tail === undefined
      ? output
      : {
          write(line: string) {
            output.write(line)
            tail.add(line)
          },
        },
  )
}
