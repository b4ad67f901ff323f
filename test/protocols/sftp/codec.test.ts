/** SFTP packets, attributes, long names, OPEN flags, error statuses and signatures are parsed and serialized. */
import t from 'tap'
import {
  readAttributes,
  modeOf,
  writeAttributes,
  longName,
  permissionLetters,
} from '../../../protocols/sftp/attributes.js'
import { errorText } from '../../../protocols/lib/error-text.js'
import { errorResponses } from '../../../protocols/sftp/errors.js'
import { needsLookup, planOpen } from '../../../protocols/sftp/open-files.js'
import {
  MalformedStream,
  FieldReader,
  MalformedPacket,
  PacketBuilder,
  PacketParser,
  type Packet,
} from '../../../protocols/sftp/packets.js'
import { limits, openFlag, statusCode } from '../../../protocols/sftp/wire.js'
import { encodeSignature } from '../../../protocols/sftp/sign-in.js'
import type { Entry } from '../../../src/contract/entry.js'
import { errorCodes, GatewayError } from '../../../src/base/errors.js'
import { string, uint32, uint64 } from './packet-client.js'

const packet = (type: number, ...fields: readonly Buffer[]): Buffer => {
  const body = Buffer.concat([Buffer.from([type]), ...fields])
  return Buffer.concat([uint32(body.length), body])
}

const parse = (chunks: readonly Buffer[]): Packet[] => {
  const parser = new PacketParser()
  const packets: Packet[] = []
  for (const chunk of chunks) {
    parser.push(chunk)
    for (let next = parser.next(); next; next = parser.next()) packets.push(next)
  }
  return packets
}

const flat = ({ type, fields, data }: Packet) => ({
  type,
  fields: fields.toString('hex'),
  data: Buffer.concat(data).toString('hex'),
})

void t.test('packets are parsed equally for any division of the stream into chunks', async (t) => {
  const write = packet(6, uint32(7), string('hand'), uint64(1 << 20), string('some data'))
  const stream = Buffer.concat([packet(1, uint32(3)), write, packet(16, uint32(8), string('.')), write])
  const whole = parse([stream]).map(flat)
  t.equal(whole.length, 4)
  t.equal(Buffer.from(whole[1]!.data, 'hex').toString(), 'some data')
  t.equal(Buffer.from(whole[2]!.data, 'hex').toString(), '')
  for (let size = 1; size < stream.length; size++) {
    const chunks = []
    for (let at = 0; at < stream.length; at += size) chunks.push(stream.subarray(at, at + size))
    t.same(parse(chunks).map(flat), whole, `divided every ${size} bytes`)
  }
})

void t.test('the data of a WRITE that arrives in one large chunk is not copied', async (t) => {
  const data = Buffer.alloc(10_000, 'x')
  const stream = packet(6, uint32(1), string('hand'), uint64(0), string(data))
  const [write] = parse([stream])
  t.equal(write?.data[0]?.buffer, stream.buffer)
  t.equal(write?.fields.buffer, stream.buffer)
})

void t.test('the data of a packet that comes byte by byte has few chunks', async (t) => {
  const data = Buffer.alloc(limits.packet - 100, 'some data')
  const stream = packet(6, uint32(7), string('hand'), uint64(0), string(data))
  const [write] = parse(Array.from(stream, (byte) => Buffer.from([byte])))
  t.ok(Buffer.concat(write?.data ?? []).equals(data))
  t.ok((write?.data.length ?? 0) <= 17, `${write?.data.length} chunks`)
})

void t.test('an invalid packet length is an error', async (t) => {
  for (const length of [0, limits.packet + 1, 0xffffffff]) {
    const parser = new PacketParser()
    parser.push(uint32(length))
    t.throws(() => parser.next(), { name: 'MalformedStream' })
  }
})

void t.test('random bytes result in packets or in a malformed stream', async (t) => {
  let seed = 1
  const random = () => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff
  for (let round = 0; round < 500; round++) {
    const parser = new PacketParser()
    try {
      for (let chunk = 0; chunk < 20; chunk++) {
        const bytes = Buffer.from(Array.from({ length: Math.floor(random() * 60) }, () => Math.floor(random() * 256)))
        // Small lengths, so that some packets are complete.
        if (bytes.length > 4 && random() < 0.7) bytes.writeUInt32BE(1 + Math.floor(random() * 50), 0)
        parser.push(bytes)
        for (let next = parser.next(); next; next = parser.next()) {
          const fields = new FieldReader(next.fields)
          try {
            fields.uint32()
            fields.text()
            readAttributes(fields)
          } catch (error) {
            t.type(error, MalformedPacket)
          }
        }
      }
    } catch (error) {
      t.type(error, MalformedStream)
    }
  }
})

void t.test('a packet with missing fields is malformed', async (t) => {
  t.throws(() => new FieldReader(Buffer.alloc(3)).uint32(), { name: 'MalformedPacket' })
  t.throws(() => new FieldReader(Buffer.alloc(7)).uint64(), { name: 'MalformedPacket' })
  t.throws(() => new FieldReader(uint32(0xffffffff)).string(), { name: 'MalformedPacket' })
  t.throws(() => new FieldReader(string(Buffer.from([0xff]))).text(), { name: 'MalformedPacket' })
  t.equal(new FieldReader(uint64((1n << 63n) + 5n)).uint64(), Number.POSITIVE_INFINITY)
  t.equal(new FieldReader(uint64(2 ** 52)).uint64(), 2 ** 52)
})

void t.test('a packet that is built grows as needed', async (t) => {
  const text = 'é'.repeat(5000)
  const built = new PacketBuilder(104, 9)
    .uint32(1)
    .string(text)
    .string(Buffer.alloc(3000))
    .uint64(2 ** 40)
    .finish()
  t.equal(built.readUInt32BE(0), built.length - 4)
  const fields = new FieldReader(built.subarray(9))
  t.equal(fields.uint32(), 1)
  t.equal(fields.text(), text)
  t.equal(fields.string().length, 3000)
  t.equal(fields.uint64(), 2 ** 40)
})

const entry: Entry = { name: 'n', kind: 'file', size: 5, modified: new Date(1_700_000_000_500), mode: 0o640 }

void t.test('encoded attributes are decoded unchanged', async (t) => {
  const packet = writeAttributes(new PacketBuilder(105, 1), entry, 7).finish()
  t.same(readAttributes(new FieldReader(packet.subarray(9))), {
    size: 5,
    mode: 0o640,
    modified: new Date(1_700_000_000_000),
  })
  t.equal(modeOf({ ...entry, kind: 'folder' }), 0o40640)
  const extended = Buffer.concat([uint32(0x80000002), uint32(1), uint32(2), uint32(1), string('a'), string('b')])
  t.same(readAttributes(new FieldReader(extended)), {})
})

void t.test('long names have the format of ls -l', async (t) => {
  const now = new Date(2026, 10, 21, 12, 0)
  const recent = { ...entry, modified: new Date(2026, 10, 1, 9, 5) }
  t.equal(longName(recent, 'n', 'ada', now), '-rw-r-----    1 ada      ada                 5 Nov  1 09:05 n')
  const old = { ...entry, kind: 'folder' as const, mode: 0o755, modified: new Date(2020, 0, 31) }
  t.equal(longName(old, 'n', 'ada', now), 'drwxr-xr-x    2 ada      ada                 5 Jan 31  2020 n')
  t.equal(permissionLetters(0o7777), 'rwsrwsrwt')
  t.equal(permissionLetters(0o7000), '--S--S--T')
})

void t.test('flags of OPEN have the meaning of open(2)', async (t) => {
  const { read, write, append, create, truncate, exclusive } = openFlag
  const rows: [flags: number, missing: string, existing: string][] = [
    [0, 'refuse missing', 'read'],
    [read, 'refuse missing', 'read'],
    [write, 'refuse missing', 'update'],
    [read | write, 'refuse missing', 'update'],
    [write | append, 'refuse missing', 'update'],
    [write | truncate, 'refuse missing', 'replace'],
    [write | exclusive, 'refuse missing', 'update'],
    [write | create, 'replace', 'update'],
    [write | create | append, 'replace', 'update'],
    [write | create | truncate, 'replace', 'replace'],
    [write | create | exclusive, 'create', 'refuse existing'],
    [write | create | exclusive | truncate, 'create', 'refuse existing'],
    [read | create, 'replace', 'read'],
    [read | truncate, 'refuse missing', 'read'],
  ]
  for (const [flags, missing, existing] of rows) {
    t.equal(planOpen(flags, false).action, missing, `flags ${flags} of a missing file`)
    t.equal(planOpen(flags, true).action, existing, `flags ${flags} of a file`)
  }
  t.notOk(needsLookup(read))
  t.notOk(planOpen(read | append, true).append)
})

void t.test('every error has a status, and its message reveals no internals', async (t) => {
  for (const code of errorCodes) t.type(errorResponses[code].status, 'number')
  t.equal(errorResponses.hidden.status, statusCode.noSuchFile)
  t.equal(errorText(new GatewayError('hidden', { op: 'stat', path: '/secret' })), 'not found')
  t.equal(errorText(new GatewayError('internal', { op: 'stat', path: '/a', reason: 'at line 3' })), 'internal error')
  t.equal(errorText(new GatewayError('not_empty', { op: 'remove', path: '/a' })), 'remove: /a: not empty')
})

void t.test('a signature is reassembled in its original form', async (t) => {
  const plain = Buffer.alloc(64, 1)
  t.same(encodeSignature('ssh-ed25519', plain), Buffer.concat([string('ssh-ed25519'), string(plain)]))
  const touched = Buffer.concat([plain, Buffer.from([1, 0, 0, 0, 9])])
  const sk = 'sk-ssh-ed25519@openssh.com'
  t.same(encodeSignature(sk, touched), Buffer.concat([string(sk), string(plain), Buffer.from([1, 0, 0, 0, 9])]))
  t.equal(encodeSignature(sk, Buffer.alloc(4)), undefined)
  const ecdsa = 'ecdsa-sha2-nistp256'
  const der = Buffer.from('3008020200ff02020102', 'hex')
  const numbers = Buffer.concat([string(Buffer.from('00ff', 'hex')), string(Buffer.from('0102', 'hex'))])
  t.same(encodeSignature(ecdsa, der), Buffer.concat([string(ecdsa), string(numbers)]))
  for (const broken of ['', '30', '3008020200ff020201', '3009020200ff0202010200', '30080202', '308400000000']) {
    t.equal(encodeSignature(ecdsa, Buffer.from(broken, 'hex')), undefined, broken)
  }
})
