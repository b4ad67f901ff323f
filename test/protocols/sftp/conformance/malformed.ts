/** Malformed or truncated packets (draft §3): a server responds or ends the session, and other sessions continue. */
import { setTimeout as sleep } from 'node:timers/promises'
import { symlinkTypes, names, string, types, uint32, uint64 } from '../packet-client.js'
import { all, check, distinct, type Section } from './check.js'
import type { Ground } from './ground.js'

/** Sends raw bytes, then a STAT. Resolves to the result. */
async function sent(ground: Ground, bytes: Buffer): Promise<string> {
  ground.client.channel.write(bytes)
  return ground.ask(names.stat, ground.at())
}

const packet = (...parts: readonly Buffer[]) => {
  const body = Buffer.concat(parts)
  return Buffer.concat([uint32(body.length), body])
}
const type = (value: number) => Buffer.from([value])

/** Every request that has fields, truncated after its id, each in its own session. */
const withFields = [
  ...Object.values(types).filter((value) => value !== types.init),
  ...Object.values(names),
  symlinkTypes.readlink,
  symlinkTypes.symlink,
]

export const malformed: Section = {
  title: 'Malformed packets (draft 3)',
  checks: [
    check('A request without its fields', 'the session ends', async (ground) => {
      const told = []
      for (const request of withFields) told.push(await (await ground.another()).ask(request))
      return distinct(told)
    }),
    check('A request whose path is longer than the packet', 'the session ends', async (ground) => {
      const told = []
      for (const request of withFields) told.push(await (await ground.another()).ask(request, uint32(1000), type(0)))
      return distinct(told)
    }),
    check('A request whose path has a length of 4294967295', 'the session ends', (ground) =>
      ground.ask(names.stat, uint32(0xffffffff)),
    ),
    check('A path that is no UTF-8', 'NO_SUCH_FILE', (ground) =>
      ground.ask(names.stat, string(Buffer.from([0x2f, 0xff, 0xfe]))),
    ),
    check('Attributes without what their flags announce', 'the session ends', async (ground) => {
      await ground.file('file')
      return ground.setstat('file', uint32(0x0f))
    }),
    check('A WRITE that announces more than it holds', 'the session ends', async (ground) => {
      const handle = await ground.open('file', 'WRITE CREAT TRUNC')
      return ground.ask(types.write, string(handle), uint64(0), uint32(100), Buffer.from('abc'))
    }),
    check('A request with bytes behind its fields', 'ATTRS', (ground) =>
      ground.ask(names.stat, ground.at(), Buffer.from('more')),
    ),
    check('A request of a type that is none', 'no answer', (ground) =>
      Promise.race([ground.ask(77), sleep(500).then(() => 'no answer')]),
    ),
    check('A packet of length 0', 'the session ends', (ground) => sent(ground, uint32(0))),
    check('A packet of 256 KiB and a byte', 'the session ends', (ground) => sent(ground, uint32(256 * 1024 + 1))),
    check('A packet of 4294967295 bytes', 'the session ends', (ground) => sent(ground, uint32(0xffffffff))),
    check('A request without an id', 'the session ends', (ground) => sent(ground, packet(type(names.stat), type(0)))),
    check('HTTP on an SFTP channel', 'the session ends', (ground) =>
      sent(ground, Buffer.from('GET / HTTP/1.1\r\n\r\n')),
    ),
    check('A packet that comes byte by byte', 'ATTRS', async (ground) => {
      const answer = ground.ask(names.stat, ground.at())
      const bytes = packet(type(names.stat), uint32(4_000_000_000), ground.at())
      for (const byte of bytes) ground.client.channel.write(Buffer.from([byte]))
      return all(answer)
    }),
    check('A request id that two requests have', 'ATTRS', async (ground) => {
      const bytes = packet(type(names.stat), uint32(9), ground.at())
      return sent(ground, Buffer.concat([bytes, bytes]))
    }),
    check('Another session after one that broke', 'the session ends, ATTRS', async (ground) => {
      const other = await ground.another()
      return all(sent(ground, uint32(0xffffffff)), other.ask(names.stat, other.at()))
    }),
  ],
}
