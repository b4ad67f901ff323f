/** What 115's web API encrypts and signs: the published examples, and what a server could send instead. */
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { accountCookies } from '../../../drivers/115/account-cookies.js'
import { Ec115 } from '../../../drivers/115/ec115.js'
import { decompressLz4Block } from '../../../drivers/115/lz4-block.js'
import { derivedKey, M115 } from '../../../drivers/115/m115.js'
import { uploadSignature, uploadToken } from '../../../drivers/115/web-uploads.js'
import { Ec115Server } from '../../doubles/115/ec115.js'
import { M115Server } from '../../doubles/115/m115.js'

const counting = (from: number, length: number) => Buffer.from(Array.from({ length }, (_, index) => from + index))

await t.test('m115: the published example, and an answer of a server', async (t) => {
  const key = counting(0, 16)
  t.equal(derivedKey(key, 4).toString('hex'), '8ddaa370')
  t.equal(derivedKey(key, 12).toString('hex'), 'ac81271bc54352d81c587497')
  const mixed = new M115(key).mixed(Buffer.from('{"pickcode":"abc123"}')).toString('hex')
  t.equal(mixed, `${key.toString('hex')}75f9ef120df33eb14ad5f9d752b4bf4b5ff92cf2ee`)
  const server = new M115Server()
  for (const broken of ['', 'AAAA', randomBytes(128).toString('base64'), randomBytes(129).toString('base64')]) {
    // Random bytes may be a message, of nonsense.
    try {
      t.type(new M115(key, server.modulus).open(broken), 'string')
    } catch (error) {
      t.match(error, { code: 'unavailable' })
    }
  }
})

await t.test('ec115: the published examples', async (t) => {
  const cipher = new Ec115(counting(1, 28))
  t.equal(cipher.keyText.toString('hex'), '1d03627b7c0b3a2fb7a478ac5670e9973194a5fda0bc0791b07506a73ddd')
  t.equal(cipher.secret.toString('hex'), '3f7ab721f3b9abc9841da5bebc6d1624bcaab3c16f7ab7d19e758fc8')
  t.equal(
    cipher.token(1_700_000_000_000, [0x11, 0x22]),
    'DBJzam0aKz6mtWm9R2H4EWIRERERefTetRO2h9+CniWzklckhR//IiMiIiKiVbxk',
  )
  t.equal(cipher.encrypt('appid=0&t=1').toString('hex'), '8d90e87fcd530a04c43b1bd86541d04e')
  for (const broken of [Buffer.alloc(0), Buffer.alloc(15), randomBytes(16), randomBytes(1000)]) {
    t.throws(() => JSON.parse(cipher.decrypt(broken)) as unknown)
  }
})

await t.test('ec115: each client has its own key', async (t) => {
  const server = new Ec115Server()
  const keys = new Set(Array.from({ length: 5 }, () => new Ec115(undefined, server.publicKey).keyText.toString('hex')))
  t.equal(keys.size, 5)
})

await t.test('LZ4 blocks: literals, matches that overlap, and what is no block', async (t) => {
  const block = (hex: string) => decompressLz4Block(Buffer.from(hex, 'hex'), 64).toString()
  t.equal(block('50' + Buffer.from('hello').toString('hex')), 'hello')
  // Two literals, a match of eight bytes at distance two, and one literal.
  t.equal(block('246162020010' + '63'), 'ababababab' + 'c')
  // A literal length of 15 and more.
  t.equal(block('f005' + '61'.repeat(20)), 'a'.repeat(20))
  const broken = {
    'ends early': '50aa',
    'a match before the block': '1461050000',
    'half an offset': '146105',
    'half a length': 'f0ff',
  }
  for (const [what, hex] of Object.entries(broken)) {
    t.throws(() => block(hex), RangeError, what)
  }
  t.throws(() => decompressLz4Block(Buffer.from('1f61010070' + '00', 'hex'), 64), RangeError, 'larger than the limit')
})

await t.test('the signatures of uploads: the published examples', async (t) => {
  const upload = {
    userId: '123456',
    userKey: 'KEY',
    sha1: 'DA39A3EE5E6B4B0D3255BFEF95601890AFD80709',
    size: 0,
    target: 'U_1_0',
    time: 1_700_000_000_000,
    appVersion: '35.6.0.3',
    signKey: '',
    signValue: '',
  }
  t.equal(uploadSignature(upload), 'A0845C0BDDD05D3858260C0F9DD954D16FDDFEA9')
  t.equal(uploadToken(upload), '3aa23933df9b6cdeb23ce4ba375d27a6')
})

await t.test('a pasted cookie: any order and case, further cookies, a semicolon at the end', async (t) => {
  t.equal(accountCookies(' uid=1_A1; cid=2;Seid=3; ').header(), 'UID=1_A1; CID=2; SEID=3')
  t.equal(accountCookies('acw_tc=x; SEID=3; KID=4; CID=2; UID=1').header(), 'acw_tc=x; SEID=3; KID=4; CID=2; UID=1')
  t.throws(() => accountCookies('UID=1; CID=2'), { code: 'invalid', message: /SEID/ })
  t.throws(() => accountCookies(''), { code: 'invalid', message: /UID, CID, SEID/ })
})
