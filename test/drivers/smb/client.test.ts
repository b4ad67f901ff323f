/** The SMB client's keys, signatures and ciphers against published vectors, and its handling of malformed messages. */
import { createHash } from 'node:crypto'
import t from 'tap'
import { ciphers, MessageEncryption } from '../../../drivers/smb/client/encryption.js'
import { ProtocolError } from '../../../drivers/smb/client/errors.js'
import { FrameReader, framePrefix } from '../../../drivers/smb/client/frames.js'
import { readHeader } from '../../../drivers/smb/client/header.js'
import { dialects, PreauthenticationHash, sessionKeys } from '../../../drivers/smb/client/keys.js'
import { md4 } from '../../../drivers/smb/client/md4.js'
import { parseDirectory, parseRead, dateOf, fileTimeOf } from '../../../drivers/smb/client/messages.js'
import {
  authenticateMessage,
  negotiateMessage,
  ntlmV2Response,
  parseChallenge,
  responseKey,
} from '../../../drivers/smb/client/ntlm.js'
import { cmac, cmacSubkeys, Signer, signingAlgorithms } from '../../../drivers/smb/client/signing.js'
import { initialToken, responseToken, tokenOf } from '../../../drivers/smb/client/spnego.js'
import {
  negotiateRequest,
  negotiateAnswer,
  setupRequest,
  setupAnswer,
  secondSetupRequest,
  signedAnswer,
  writeOf300,
  encryptedWriteOf300,
  encryptedAnswerOf300,
  answerOf300,
  writeOf311,
  encryptedWriteOf311,
} from './vectors.js'

const hex = (text: string): Buffer => Buffer.from(text.replace(/\s/g, ''), 'hex')

void t.test('md4() matches the vectors of RFC 1320', async (t) => {
  const vectors = {
    '': '31d6cfe0d16ae931b73c59d7e0c089c0',
    a: 'bde52cb31de33e46245e05fbdbd6fb24',
    abc: 'a448017aaf21d8525fc10ae87aa6729d',
    'message digest': 'd9130a8164549fe818874806e1c7014b',
    abcdefghijklmnopqrstuvwxyz: 'd79e1c308aa5bbcdeea8ed63df412da9',
    ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789: '043f8582f241db351ce627e153e7f0e4',
    ['1234567890'.repeat(8)]: 'e33b4ddc9c38f2199c3e7b164fcc0536',
  }
  for (const [text, digest] of Object.entries(vectors)) t.equal(md4(Buffer.from(text)).toString('hex'), digest, text)
})

void t.test('ntlmV2Response() matches the vectors of MS-NLMP §4.2.4', async (t) => {
  const key = responseKey({ username: 'User', domain: 'Domain', password: 'Password' })
  t.equal(key.toString('hex'), '0c868a403bfd7a93a3001ef22ef02e3f')
  const targetInfo = hex('02000c0044006f006d00610069006e00 01000c00530065007200760065007200 00000000')
  const clientChallenge = Buffer.alloc(8, 0xaa)
  const serverChallenge = hex('0123456789abcdef')
  const { response, sessionKey } = ntlmV2Response(key, serverChallenge, clientChallenge, Buffer.alloc(8), targetInfo)
  t.equal(response.subarray(0, 16).toString('hex'), '68cd0ab851e51c96aabc927bebef6a1c')
  t.equal(sessionKey.toString('hex'), '8de40ccadbc14a82f15cb0ad0de95ca3')
})

void t.test('authenticateMessage() adds a MIC if the server sends its time', async (t) => {
  const challenge = (info: Buffer) => {
    const head = Buffer.alloc(48)
    head.write('NTLMSSP\0', 'latin1')
    head.writeUInt32LE(2, 8)
    hex('0123456789abcdef').copy(head, 24)
    head.writeUInt16LE(info.length, 40)
    head.writeUInt32LE(48, 44)
    return Buffer.concat([head, info])
  }
  const credentials = { username: 'us\u00e9r', domain: 'D', password: 'p' }
  const timed = challenge(hex('0700080011223344556677 88 00000000'))
  const { message, sessionKey } = authenticateMessage(credentials, negotiateMessage(), timed)
  t.equal(sessionKey.length, 16)
  t.notOk(message.subarray(72, 88).equals(Buffer.alloc(16)), 'a MIC')
  t.ok(message.includes(hex('0600040002000000')), 'the MIC is announced')
  t.ok(message.includes(hex('1122334455667788')), 'the time of the server')
  const untimed = authenticateMessage(credentials, negotiateMessage(), challenge(hex('00000000'))).message
  t.ok(untimed.subarray(72, 88).equals(Buffer.alloc(16)), 'no MIC without a time')
  t.throws(() => parseChallenge(timed.subarray(0, 50)), ProtocolError, 'truncated')
  t.throws(() => parseChallenge(Buffer.alloc(100)), ProtocolError, 'another kind of message')
  const lying = challenge(hex('0700ff0011223344'))
  t.throws(() => authenticateMessage(credentials, negotiateMessage(), lying), ProtocolError, 'a truncated pair')
})

void t.test('tokenOf() finds the token that responseToken() wraps in SPNEGO', async (t) => {
  for (const length of [0, 1, 100, 200, 5000]) {
    const token = Buffer.alloc(length, 7)
    t.ok(tokenOf(responseToken(token, Buffer.alloc(16))).equals(token), `${length} bytes`)
  }
  const setup = hex(setupRequest)
  t.ok(initialToken(setup.subarray(-40)).equals(setup.subarray(88)), 'as Windows encodes it')
  t.equal(tokenOf(Buffer.from('NTLMSSP\0bare')).toString('latin1'), 'NTLMSSP\0bare')
  // The last response of a Windows server.
  t.equal(tokenOf(hex('a11b3019a0030a0100a3120410010000003b453cdc3524164200000000')).length, 0)
  for (const bad of ['a1', 'a1ff', 'a184ffffffff', 'a10330', 'a1053003a2010400', '60023000']) {
    t.throws(() => tokenOf(hex(bad)), ProtocolError, bad)
  }
})

void t.test('sessionKeys() matches Microsoft’s example of SMB 3.0', async (t) => {
  const keys = sessionKeys(dialects.smb300, hex('7CD451825D0450D235424E44BA6E78CC'), Buffer.alloc(64))
  t.same(keys, {
    signing: hex('0B7E9C5CAC36C0F6EA9AB275298CEDCE'),
    encryption: hex('FAD27796665B313EBB578F388632B4F7'),
    decryption: hex('B0F0427F7CEB416D1D9DCC0CD4F99447'),
  })
})

void t.test('PreauthenticationHash and sessionKeys() match Microsoft’s example of SMB 3.1.1', async (t) => {
  const hash = new PreauthenticationHash()
  const steps = [
    [
      negotiateRequest,
      'DD94EFC5321BB618A2E208BA8920D2F422992526947A409B5037DE1E0FE8C7362B8C47122594CDE0CE26AA9DFC8BCDBDE0621957672623351A7540F1E54A0426',
    ],
    [
      negotiateAnswer,
      '324BFA92A4F3A190E466EBEA08D9C110DC88BFED758D9846ECC6F541CC1D02AE3C94A79F36011E997E13F841B91B50957AD07B19C8E2539C0B23FDAE09D2C513',
    ],
    [
      setupRequest,
      'AC0B0F2B9986257700365E416D142A6EDC96DF03594A19E52A15F6BD0D041CD5D432F8ED42C55E33197A50C9EC00F1462B50C592211B1471A04B56088FDFD5F9',
    ],
    [
      setupAnswer,
      '2729E3440DFDDD839E37193F6E8F20C20CEFB3469E453A70CD980EEC06B8835740A73760085633364C8989895ECE81BF102DEEB14D4B7D48AFA76901A7A38387',
    ],
    [
      secondSetupRequest,
      '0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB7928622DDDAD522D9751640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01',
    ],
  ] as const
  for (const [message, value] of steps) {
    hash.update(hex(message))
    t.equal(hash.value.toString('hex').toUpperCase(), value)
  }
  const sessionKey = hex('270E1BA896585EEB7AF3472D3B4C75A7')
  const keys = sessionKeys(dialects.smb311, sessionKey, hash.value)
  t.same(keys, {
    signing: hex('73FE7A9A77BEF0BDE49C650D8CCB5F76'),
    encryption: hex('629BCBC54422A0F572B97F45989B6073'),
    decryption: hex('E2AF0DCEFAC68DA71A0DFBD0D1350D74'),
  })
  const lastAnswer = hex(signedAnswer)
  const signer = new Signer(signingAlgorithms.aesCmac, keys.signing)
  t.ok(signer.verify(lastAnswer), 'the server’s signature is valid')
  t.ok(signer.verify(lastAnswer), 'verifying does not change the message')
  for (const at of [8, 30, 50, lastAnswer.length - 1]) {
    const changed = Buffer.from(lastAnswer)
    changed[at] = (changed[at] ?? 0) ^ 1
    t.notOk(signer.verify(changed), `byte ${at} was changed`)
  }
  t.equal(sessionKeys(dialects.smb311, sessionKey, hash.value, 32).encryption.length, 32, 'for AES-256')
})

void t.test('cmac() matches the vectors of RFC 4493, in one or two parts', async (t) => {
  const key = hex('2b7e151628aed2a6abf7158809cf4f3c')
  const message = hex(
    '6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51 30c81c46a35ce411e5fbc1191a0a52ef f69f2445df4f9b17ad2b417be66c3710',
  )
  const vectors = [
    [0, 'bb1d6929e95937287fa37d129b756746'],
    [16, '070a16b46b4d4144f79bdd9dd04a287c'],
    [40, 'dfa66747de9ae63030ca32611497c827'],
    [64, '51f0bebf7e3b9d92fc49741779363cfe'],
  ] as const
  for (const [length, mac] of vectors) {
    for (const cut of [0, 1, 15, 16, 17, 33, 39, 64]) {
      const parts = [message.subarray(0, Math.min(cut, length)), message.subarray(Math.min(cut, length), length)]
      t.equal(cmac(key, cmacSubkeys(key), parts).toString('hex'), mac, `${length} bytes, cut at ${cut}`)
    }
  }
})

void t.test('Signer signs a message in parts as in one piece, with every algorithm', async (t) => {
  const key = Buffer.alloc(16, 5)
  for (const algorithm of Object.values(signingAlgorithms)) {
    const signer = new Signer(algorithm, key)
    const [head, data] = [Buffer.alloc(112, 1), Buffer.alloc(70_001, 2)]
    signer.sign([head, data])
    const whole = Buffer.concat([head, data])
    const before = Buffer.from(whole.subarray(48, 64))
    signer.sign([whole])
    t.ok(whole.subarray(48, 64).equals(before), `algorithm ${algorithm}`)
  }
})

void t.test('Encryption matches Microsoft’s examples of AES-128-CCM and AES-128-GCM', async (t) => {
  const ccmKeys = sessionKeys(dialects.smb300, hex('B4546771B515F766A86735532DD6C4F0'), Buffer.alloc(64))
  const ccm = new MessageEncryption(ciphers.aes128Ccm, ccmKeys, 0x8e40014000011n)
  const nonce = hex('66E69A111892584FB5ED52')
  const sent = ccm.encrypt([hex(writeOf300).subarray(0, 30), hex(writeOf300).subarray(30)], nonce)
  t.equal(Buffer.concat(sent).subarray(52).toString('hex').toUpperCase(), encryptedWriteOf300)
  t.equal(ccm.decrypt(hex(encryptedAnswerOf300)).toString('hex').toUpperCase(), answerOf300)
  const changed = hex(encryptedAnswerOf300)
  changed[60] = (changed[60] ?? 0) ^ 1
  t.throws(() => ccm.decrypt(changed), ProtocolError)

  const preauthentication = hex(
    'B23F3CBFD69487D9832B79B1594A367CDD950909B774C3A4C412B4FCEA9EDDDBA7DB256BA2EA30E977F11F9B113247578E0E915C6D2A513B8F2FCA5707DC8770',
  )
  const gcmKeys = sessionKeys(dialects.smb311, hex('419FDDF34C1E001909D362AE7FB6AF79'), preauthentication)
  t.equal(gcmKeys.encryption.toString('hex').toUpperCase(), 'A2F5E80E5D59103034F32E52F698E5EC')
  const gcm = new MessageEncryption(ciphers.aes128Gcm, gcmKeys, 0x100000000025n)
  const frame = gcm.encrypt([hex(writeOf311)], hex('C7D6822D269CAF48904C664C'))
  t.equal(Buffer.concat(frame).subarray(52).toString('hex').toUpperCase(), encryptedWriteOf311)
})

void t.test('Encryption decrypts what it encrypts, and rejects altered frames, with every cipher', async (t) => {
  for (const cipher of Object.values(ciphers)) {
    const key = Buffer.alloc(cipher > 2 ? 32 : 16, 9)
    const keys = { signing: key, encryption: key, decryption: key }
    const encryption = new MessageEncryption(cipher, keys, 77n)
    const message = [Buffer.alloc(112, 1), Buffer.alloc(100_000, 2)]
    const [first, second] = [1, 2].map(() => Buffer.concat(encryption.encrypt(message)))
    if (!first || !second) return
    t.notOk(first.equals(second), 'each frame has its own nonce')
    for (const frame of [first, second])
      t.ok(encryption.decrypt(frame).equals(Buffer.concat(message)), `cipher ${cipher}`)
    for (const at of [5, 21, 40, 46, 60, first.length - 1]) {
      const changed = Buffer.from(first)
      changed[at] = (changed[at] ?? 0) ^ 1
      t.throws(() => encryption.decrypt(changed), ProtocolError, `byte ${at} was changed`)
    }
    t.throws(() => encryption.decrypt(first.subarray(0, 40)), ProtocolError, 'truncated')
  }
})

void t.test('FrameReader finds frames however the stream is split', async (t) => {
  const frames = [1, 70_000, 3, 262_144].map((length) => Buffer.alloc(length, length % 251))
  const stream = Buffer.concat(frames.flatMap((frame) => [framePrefix(frame.length), frame, framePrefix(0)]))
  for (const step of [1, 3, 4, 5, 1000, 65_536, stream.length]) {
    const reader = new FrameReader()
    const found: Buffer[] = []
    for (let at = 0; at < stream.length; at += step) {
      reader.push(stream.subarray(at, at + step), (frame) => found.push(frame))
    }
    const digest = (list: readonly Buffer[]) => list.map((each) => createHash('md5').update(each).digest('hex'))
    t.same(digest(found), digest(frames), `in steps of ${step}`)
  }
  t.throws(() => new FrameReader().push(Buffer.from('HTTP/1.1 400'), () => undefined), ProtocolError)
})

void t.test('truncated and inconsistent responses are protocol errors', async (t) => {
  t.throws(() => readHeader(Buffer.alloc(64)), ProtocolError)
  t.throws(() => readHeader(Buffer.alloc(10)), ProtocolError)
  const read = Buffer.alloc(84)
  read.writeUInt8(80, 66)
  read.writeUInt32LE(5, 68)
  t.throws(() => parseRead(read), ProtocolError, 'data beyond the end')
  const listing = Buffer.alloc(72 + 106)
  listing.writeUInt16LE(72, 66)
  listing.writeUInt32LE(106, 68)
  listing.writeUInt32LE(2, 72 + 60)
  listing.write('a', 72 + 104, 'utf16le')
  t.match(parseDirectory(listing), [{ name: 'a', size: 0 }])
  listing.writeUInt32LE(4, 72 + 60)
  t.throws(() => parseDirectory(listing), ProtocolError, 'a name beyond the end')
  listing.writeUInt32LE(2, 72 + 60)
  listing.writeUInt32LE(8, 72)
  t.throws(() => parseDirectory(listing), ProtocolError, 'an entry within itself')
})

void t.test('fileTimeOf() and dateOf() convert times to the millisecond', async (t) => {
  for (const time of ['2001-02-03T04:05:06.789Z', '1601-01-01T00:00:00.001Z', '2999-12-31T23:59:59.999Z']) {
    t.equal(dateOf(fileTimeOf(new Date(time))).toISOString(), time)
  }
  t.equal(fileTimeOf(new Date('1970-01-01T00:00:00Z')), 116_444_736_000_000_000n)
  t.equal(fileTimeOf(new Date('1500-01-01T00:00:00Z')), 1n, 'before the epoch of the format: its first step')
})
