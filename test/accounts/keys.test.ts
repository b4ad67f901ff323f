/**
 * Public keys and signatures of SSH: those of ssh-keygen are accepted; malformed, weak and truncated ones are rejected.
 */
import { execFileSync } from 'node:child_process'
import { createHash, generateKeyPairSync, randomBytes, sign, type KeyObject } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { isOnEd25519, fingerprintOf, parseKeyBlob, parseKeyLine } from '../../src/accounts/public-keys.js'
import { verifySignature } from '../../src/accounts/signatures.js'
import { isGatewayError } from '../../src/base/errors.js'
import { processorTime } from '../processor-time.js'

const made = [
  ['ed25519', '256', 'ssh-ed25519'],
  ['ecdsa', '256', 'ecdsa-sha2-nistp256'],
  ['ecdsa', '384', 'ecdsa-sha2-nistp384'],
  ['ecdsa', '521', 'ecdsa-sha2-nistp521'],
  ['rsa', '2048', 'ssh-rsa'],
  ['rsa', '3072', 'ssh-rsa'],
] as const

const folder = t.testdir()

/** Creates a key pair with ssh-keygen. Returns the private file; the public one is beside it. */
function keygen(kind: string, bits: string, comment = 'ada@laptop'): string {
  const file = join(folder, `${kind}-${bits}-${randomBytes(4).toString('hex')}`)
  execFileSync('ssh-keygen', ['-q', '-t', kind, '-b', bits, '-N', '', '-C', comment, '-f', file])
  return file
}

const string = (bytes: Buffer | string): Buffer => {
  const content = Buffer.from(bytes as string)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(content.length)
  return Buffer.concat([length, content])
}
const mpint = (bytes: Buffer): Buffer => string(bytes[0]! >= 0x80 ? Buffer.concat([Buffer.of(0), bytes]) : bytes)
const line = (type: string, blob: Buffer): string => `${type} ${blob.toString('base64')} comment`
const withoutZeros = (bytes: Buffer): Buffer => {
  let at = 0
  while (at < bytes.length - 1 && bytes[at] === 0) at++
  return bytes.subarray(at)
}
const jwk = (key: KeyObject, field: 'x' | 'y' | 'n' | 'e'): Buffer =>
  Buffer.from(key.export({ format: 'jwk' })[field]!, 'base64url')

void t.test('public keys of ssh-keygen are parsed, and have the fingerprint that ssh-keygen prints', async (t) => {
  for (const [kind, bits, type] of made) {
    const file = keygen(kind, bits)
    const text = readFileSync(`${file}.pub`, 'utf8')
    const key = parseKeyLine(text)
    t.equal(key.type, type)
    t.equal(
      fingerprintOf(key.blob),
      execFileSync('ssh-keygen', ['-lf', `${file}.pub`], { encoding: 'utf8' }).split(' ')[1],
    )
  }
})

void t.test('options and comment lines are skipped, and the first key is returned', async (t) => {
  const text = readFileSync(`${keygen('ed25519', '256', '')}.pub`, 'utf8').trim()
  const blob = parseKeyLine(text).blob
  const other = readFileSync(`${keygen('ed25519', '256')}.pub`, 'utf8')
  for (const variant of [
    `# my keys\n\n  # laptop\n${text}\n${other}`,
    `${text} a comment with "quotes" and ssh-rsa words`,
    `\t${text}\r\n`,
    `restrict,no-pty ${text}`,
    `from="10.0.0.0/8, *.example.org",command="echo \\"hi there\\"" ${text}`,
    `environment="A=b, cert-authority" ${text}`,
  ]) {
    t.same(parseKeyLine(variant).blob, blob, variant)
  }
})

void t.test('an unacceptable key is rejected with a reason', async (t) => {
  const ed25519 = readFileSync(`${keygen('ed25519', '256')}.pub`, 'utf8').trim()
  const [type = '', base64 = ''] = ed25519.split(' ')
  const small = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey
  const smallBlob = Buffer.concat([string('ssh-rsa'), mpint(jwk(small, 'e')), mpint(jwk(small, 'n'))])
  const rsaOf = (bits: number) =>
    line('ssh-rsa', Buffer.concat([string('ssh-rsa'), mpint(Buffer.of(1, 0, 1)), mpint(Buffer.alloc(bits / 8, 0xff))]))
  t.equal(parseKeyLine(rsaOf(8192)).type, 'ssh-rsa')
  const ca = keygen('ed25519', '256')
  const certified = keygen('ed25519', '256')
  execFileSync('ssh-keygen', ['-q', '-s', ca, '-I', 'ada', '-n', 'ada', `${certified}.pub`])
  for (const [text, reason] of [
    ['', /no key/],
    ['# only a comment', /no key/],
    [readFileSync(ca, 'utf8'), /not a key file/],
    [readFileSync(`${certified}-cert.pub`, 'utf8'), /certificates are not accepted/],
    [`cert-authority ${ed25519}`, /authorities are not accepted/],
    [`from="x",cert-authority ${ed25519}`, /authorities are not accepted/],
    ['ssh-dss AAAAB3NzaC1kc3MAAACBAJ', /DSA/],
    ['ssh-ed448 AAAA', /unknown/],
    ['nonsense', /not a line/],
    ['"unclosed', /not a line/],
    [type, /base64/],
    [`${type} ${base64.slice(0, -1)}`, /base64|missing/],
    [`${type} ${base64}=`, /base64/],
    [`${type} ${base64.replace('A', '*')}`, /base64/],
    [`ssh-rsa ${base64}`, /another type/],
    [line('ssh-rsa', smallBlob), /needs 2048 bits, this one has 1024/],
    [rsaOf(8200), /more than 8192 bits/],
    [rsaOf(16_384), /more than 8192 bits/],
    ['x'.repeat(40_000), /too long/],
  ] as const) {
    t.throws(() => parseKeyLine(text), { code: 'invalid', message: reason }, text.slice(0, 60))
  }
})

void t.test('options with unclosed quotes are rejected in linear time', async (t) => {
  const took = await processorTime(() => {
    for (const end of ['', '"', ' ssh-ed25519 AAAA']) {
      t.throws(() => parseKeyLine(`"${'\\"'.repeat(20_000)}${end}`), { code: 'invalid' })
    }
  })
  t.ok(took < 2000, `${took.toFixed()} ms`)
})

void t.test('malformed key blobs are rejected: wrong lengths, points or numbers, and trailing bytes', async (t) => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey
  const [n, e, x, y] = [jwk(rsa, 'n'), jwk(rsa, 'e'), jwk(ec, 'x'), jwk(ec, 'y')]
  const ed = jwk(generateKeyPairSync('ed25519').publicKey, 'x')
  const point = Buffer.concat([Buffer.of(4), x, y])
  const p256 = 'ecdsa-sha2-nistp256'
  const off = Buffer.from(point)
  off[off.length - 1]! ^= 1
  const outside = Buffer.from(ed)
  while (isOnEd25519(outside)) outside[0]!++
  for (const blob of [
    Buffer.concat([string('ssh-ed25519'), string(ed), Buffer.of(0)]),
    Buffer.concat([string('ssh-ed25519'), string(ed.subarray(1))]),
    Buffer.concat([string('ssh-ed25519'), string(Buffer.concat([ed, Buffer.of(0)]))]),
    Buffer.concat([string('ssh-ed25519'), string(outside)]),
    Buffer.concat([string('ssh-ed25519'), string(Buffer.alloc(32))]),
    Buffer.concat([string('ssh-ed25519'), string(Buffer.alloc(32, 0xff))]),
    Buffer.concat([string(p256), string('nistp384'), string(point)]),
    Buffer.concat([string(p256), string('nistp256'), string(off)]),
    Buffer.concat([string(p256), string('nistp256'), string(Buffer.concat([Buffer.of(2), x]))]),
    Buffer.concat([string(p256), string('nistp256'), string(Buffer.of(0))]),
    Buffer.concat([string('ssh-rsa'), mpint(e), string(n)]),
    Buffer.concat([string('ssh-rsa'), mpint(e), string(Buffer.concat([Buffer.of(0, 0), n]))]),
    Buffer.concat([string('ssh-rsa'), mpint(Buffer.of(1)), mpint(n)]),
    Buffer.concat([string('ssh-rsa'), mpint(Buffer.of(4)), mpint(n)]),
    Buffer.concat([string('ssh-rsa'), string(''), mpint(n)]),
    Buffer.concat([string('ssh-rsa'), mpint(e), mpint(Buffer.alloc(4096, 0xff))]),
    Buffer.concat([string('sk-ssh-ed25519@openssh.com'), string(ed)]),
    Buffer.concat([string('sk-ssh-ed25519@openssh.com'), string(ed), string('')]),
    Buffer.concat([string('sk-ssh-ed25519@openssh.com'), string(ed), string(Buffer.of(0xff))]),
    Buffer.alloc(0),
    Buffer.alloc(4, 0xff),
  ]) {
    t.throws(() => parseKeyBlob(blob), { code: 'invalid' }, blob.toString('hex').slice(0, 80))
  }
  t.equal(parseKeyBlob(Buffer.concat([string('ssh-rsa'), mpint(e), mpint(n)])).type, 'ssh-rsa')
  t.equal(parseKeyBlob(Buffer.concat([string(p256), string('nistp256'), string(point)])).type, p256)
})

void t.test(
  'isOnEd25519() accepts public keys, about half of all random points, and no point of small order',
  async (t) => {
    for (let n = 0; n < 50; n++) {
      t.ok(isOnEd25519(jwk(generateKeyPairSync('ed25519').publicKey, 'x')))
    }
    const random = Array.from({ length: 200 }, () => isOnEd25519(randomBytes(32))).filter(Boolean).length
    t.ok(random > 60 && random < 140, `${random} of 200`)
    for (const small of [
      '0100000000000000000000000000000000000000000000000000000000000000',
      'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
      '0000000000000000000000000000000000000000000000000000000000000000',
      '0000000000000000000000000000000000000000000000000000000000000080',
      '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
      'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
      '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
    ]) {
      t.notOk(isOnEd25519(Buffer.from(small, 'hex')), small)
    }
  },
)

void t.test('truncated and corrupted keys parse as themselves or are rejected as invalid', async (t) => {
  for (const [kind, bits] of made.slice(0, 5)) {
    const text = readFileSync(`${keygen(kind, bits)}.pub`, 'utf8').trim()
    const { blob, type } = parseKeyLine(text)
    let wrong = 0
    const attempt = (
      parse: () => { readonly blob: Buffer; readonly type: string },
      changed: Buffer | undefined,
    ): void => {
      try {
        const key = parse()
        if (changed === undefined || key.type !== type || !key.blob.equals(changed)) wrong++
      } catch (error) {
        if (!isGatewayError(error, 'invalid')) wrong++
      }
    }
    for (let length = 0; length < blob.length; length++)
      attempt(() => parseKeyBlob(blob.subarray(0, length)), undefined)
    for (let bit = 0; bit < blob.length * 8; bit += 3) {
      const bent = Buffer.from(blob)
      bent[bit >> 3]! ^= 1 << (bit & 7)
      attempt(() => parseKeyBlob(bent), bent)
      attempt(() => parseKeyLine(line(type, bent)), bent)
    }
    const end = text.indexOf(' ', type.length + 1)
    for (let length = 0; length < end; length++) attempt(() => parseKeyLine(text.slice(0, length)), undefined)
    t.equal(wrong, 0, `${type}: ${blob.length} bytes`)
  }
})

/** A signature by `ssh-keygen -Y sign` (PROTOCOL.sshsig): the signed data, and the blob of the signature. */
function signWithKeygen(file: string, message: string): { readonly data: Buffer; readonly signature: Buffer } {
  const input = `${file}.${message}`
  writeFileSync(input, message)
  execFileSync('ssh-keygen', ['-q', '-Y', 'sign', '-n', 'test', '-f', file, input], { stdio: 'ignore' })
  const armoured = readFileSync(`${input}.sig`, 'utf8').replaceAll(/-----.*-----|\s/g, '')
  const blob = Buffer.from(armoured, 'base64')
  const fields: Buffer[] = []
  for (let at = 10; at < blob.length;) {
    const length = blob.readUInt32BE(at)
    fields.push(blob.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  const [, namespace, reserved, hash, signature] = fields as [Buffer, Buffer, Buffer, Buffer, Buffer]
  const digest = createHash(hash.toString()).update(message).digest()
  const data = Buffer.concat([Buffer.from('SSHSIG'), string(namespace), string(reserved), string(hash), string(digest)])
  return { data, signature }
}

void t.test('signatures of ssh-keygen are verified; corrupted, truncated or foreign ones are rejected', async (t) => {
  for (const [kind, bits, type] of made) {
    const file = keygen(kind, bits)
    const { blob } = parseKeyLine(readFileSync(`${file}.pub`, 'utf8'))
    const other = parseKeyLine(readFileSync(`${keygen(kind, bits)}.pub`, 'utf8'))
    for (const message of ['one', 'two', 'three']) {
      const { data, signature } = signWithKeygen(file, message)
      t.equal(verifySignature(blob, data, signature), true, type)
      t.equal(verifySignature(other.blob, data, signature), false)
      t.equal(verifySignature(blob, Buffer.concat([data, Buffer.of(0)]), signature), false)
      t.equal(verifySignature(blob, data, Buffer.concat([signature, Buffer.of(0)])), false)
      t.equal(verifySignature(Buffer.alloc(3), data, signature), false)
      let accepted = 0
      for (let at = 0; at < signature.length; at++) {
        const bent = Buffer.from(signature)
        bent[at]! ^= 1 << (at & 7)
        if (verifySignature(blob, data, bent)) accepted++
        if (verifySignature(blob, data, signature.subarray(0, at))) accepted++
      }
      t.equal(accepted, 0)
    }
  }
})

void t.test('an RSA signature with SHA-1 is rejected', async (t) => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const blob = Buffer.concat([string('ssh-rsa'), mpint(jwk(publicKey, 'e')), mpint(jwk(publicKey, 'n'))])
  const data = Buffer.from('data')
  const signed = (algorithm: string, hash: string): Buffer =>
    Buffer.concat([string(algorithm), string(sign(hash, data, privateKey))])
  t.equal(verifySignature(blob, data, signed('rsa-sha2-256', 'sha256')), true)
  t.equal(verifySignature(blob, data, signed('rsa-sha2-512', 'sha512')), true)
  t.equal(verifySignature(blob, data, signed('ssh-rsa', 'sha1')), false)
  t.equal(verifySignature(blob, data, signed('rsa-sha2-256', 'sha1')), false)
  t.equal(verifySignature(blob, data, signed('rsa-sha2-256', 'sha512')), false)
})

void t.test('signatures of security keys require user presence', async (t) => {
  const ed = generateKeyPairSync('ed25519')
  const ec = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const application = 'ssh:work'
  const keys = {
    'sk-ssh-ed25519@openssh.com': {
      blob: Buffer.concat([string('sk-ssh-ed25519@openssh.com'), string(jwk(ed.publicKey, 'x')), string(application)]),
      sign: (data: Buffer) => sign(null, data, ed.privateKey),
    },
    'sk-ecdsa-sha2-nistp256@openssh.com': {
      blob: Buffer.concat([
        string('sk-ecdsa-sha2-nistp256@openssh.com'),
        string('nistp256'),
        string(Buffer.concat([Buffer.of(4), jwk(ec.publicKey, 'x'), jwk(ec.publicKey, 'y')])),
        string(application),
      ]),
      sign: (data: Buffer) => {
        const raw = sign('sha256', data, { key: ec.privateKey, dsaEncoding: 'ieee-p1363' })
        return Buffer.concat([mpint(withoutZeros(raw.subarray(0, 32))), mpint(withoutZeros(raw.subarray(32)))])
      },
    },
  }
  const sha256 = (bytes: Buffer | string): Buffer => createHash('sha256').update(bytes).digest()
  const data = Buffer.from('session and request')
  for (const [type, key] of Object.entries(keys)) {
    const made = (flags: number, told = flags, purpose = application): Buffer => {
      const counter = Buffer.of(0, 0, 1, 7)
      const signed = Buffer.concat([sha256(purpose), Buffer.of(flags), counter, sha256(data)])
      return Buffer.concat([string(type), string(key.sign(signed)), Buffer.of(told), counter])
    }
    t.equal(parseKeyLine(line(type, key.blob)).application, application)
    t.equal(verifySignature(key.blob, data, made(1)), true, type)
    t.equal(verifySignature(key.blob, data, made(5)), true, 'user verified by a PIN')
    t.equal(verifySignature(key.blob, data, made(0)), false, 'no user presence')
    t.equal(verifySignature(key.blob, data, made(0, 1)), false, 'a forged presence flag')
    t.equal(verifySignature(key.blob, data, made(1, 1, 'ssh:')), false, 'for another application')
    t.equal(verifySignature(key.blob, data, made(1).subarray(0, -1)), false)
    t.equal(verifySignature(key.blob, data, Buffer.concat([made(1), Buffer.of(0)])), false)
    t.equal(verifySignature(key.blob, data, Buffer.concat([string(type), string(key.sign(data))])), false)
  }
})
