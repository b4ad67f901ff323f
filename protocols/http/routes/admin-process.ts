/** The process of the daemon, and its log. An extension of this gateway, described in docs/api.md. */
import { arch, release, type } from 'node:os'
import { z } from 'zod'
import { version } from '../../../src/base/version.js'
import { logLevels, type LogLevel } from '../../../src/gateway/log-tail.js'
import { endpoint } from '../api/endpoint.js'
import { integer } from '../api/fields.js'
import { wireTime } from '../compat/object.js'
import { timestamp } from '../api/schemas.js'

const levels = Object.keys(logLevels) as [LogLevel, ...LogLevel[]]

const aboutData = z.object({
  version: z.string().meta({ example: 'v0.1.0' }),
  node: z.string().describe('The version of Node.js.').meta({ example: 'v20.18.0' }),
  platform: z.string().describe('The operating system, its version, and the processor architecture.'),
  started: timestamp,
  data: z.string().describe('The path of the data folder.'),
  addresses: z.record(z.string(), z.string()).describe('`HOST:PORT` or `off`, by protocol.'),
})

const lineData = z
  .object({
    id: z.int().describe('Counts the lines since the start of the daemon.'),
    time: timestamp,
    level: z.enum(levels),
    message: z.string(),
    fields: z.record(z.string(), z.unknown()).describe('The details of the line, without secrets.'),
  })
  .meta({ id: 'LogLine' })

export const adminProcessEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/about',
    tag: 'Process',
    summary: 'Get the version of the daemon, and where it runs',
    access: 'admin',
    data: aboutData,
    answer: ({ api: { gateway } }) => ({
      version,
      node: process.version,
      platform: `${type()} ${release()} ${arch()}`,
      started: wireTime(new Date(performance.timeOrigin)),
      data: gateway.config.data,
      addresses: { ...gateway.listening.addresses },
    }),
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/log',
    tag: 'Process',
    summary: 'Get the last lines of the log',
    description:
      'At most 1,000 lines and 512 Ki characters are held in memory, of the levels that `log_level` permits.',
    access: 'admin',
    fields: z.object({
      after: integer(0).describe('Only lines after the one with this id: `next` of the last response.'),
      level: z
        .union([z.enum(levels), z.literal('').transform(() => levels[0])], {
          error: `must be one of ${levels.join(', ')}`,
        })
        .default(levels[0])
        .meta({ wire: { type: 'string', enum: levels, default: levels[0] } })
        .describe('Only lines of this level or a higher one.'),
    }),
    data: z.object({
      content: z.array(lineData).readonly(),
      next: z.int().describe('The id of the latest line, of any level.'),
    }),
    answer({ api: { gateway }, fields: { after, level } }) {
      const { logTail } = gateway
      return { content: [...logTail.after(after, level)], next: logTail.lastId }
    },
  }),
]
