/** The account of the double: its cookies, and how a client signs in by a code that is scanned. */
import { randomBytes, randomUUID } from 'node:crypto'
import { Answer, Refusal, type Call, type Handler } from './http-routes.js'

interface Session {
  readonly CID: string
  readonly SEID: string
  readonly KID: string
}

interface QrCode {
  readonly time: number
  readonly sign: string
  status: number
}

/** Kinds of devices that may sign in; the others were withdrawn. */
const kinds = ['web', 'android', 'ios', 'tv', 'alipaymini', 'wechatmini', 'qandroid']
const withdrawn = '登录失败，系统已下架！'

export class Account {
  readonly id = '123456'
  readonly userKey = 'E7BB3F5A0D5C2B5C1AD1F8E3C4F2A1B0C9D8E7F6'
  /** By the kind of the device: a further sign-in of one kind ends the earlier one. */
  readonly #sessions = new Map<string, Session>()
  readonly #codes = new Map<string, QrCode>()

  /** Signs in, and returns the text of the cookies, as a browser shows it. */
  signIn(kind = 'web'): string {
    const session = { CID: randomBytes(16).toString('hex'), SEID: randomBytes(30).toString('hex'), KID: randomUUID() }
    this.#sessions.set(kind, session)
    return `UID=${this.id}_A1_1700000000; CID=${session.CID}; SEID=${session.SEID}; KID=${session.KID}`
  }

  /** No cookie is accepted any more. */
  signOut(): void {
    this.#sessions.clear()
  }

  /**
   * Begins a sign-in by a code. Returns the `uid` of a code that a device has confirmed, which may be exchanged once.
   */
  confirmedCode(): string {
    const uid = randomBytes(20).toString('hex')
    this.#codes.set(uid, { time: Math.floor(Date.now() / 1000), sign: randomBytes(20).toString('hex'), status: 2 })
    return uid
  }

  /** Sets the state of a code that a client has begun: 1 scanned, 2 allowed, -1 expired, -2 canceled. */
  setCode(uid: string, status: number): void {
    const code = this.#codes.get(uid)
    if (code) code.status = status
  }

  isSignedIn({ cookies }: Call): boolean {
    const isOwn = (cookies.get('UID') ?? '').split('_')[0] === this.id
    return (
      isOwn &&
      [...this.#sessions.values()].some(({ CID, SEID }) => CID === cookies.get('CID') && SEID === cookies.get('SEID'))
    )
  }

  /** Throws the refusal of a call without valid cookies. */
  assertSignedIn(call: Call): void {
    if (!this.isSignedIn(call)) throw new Refusal(990001, '登录超时，请重新登录。')
  }

  routes(): Readonly<Record<string, Readonly<Record<string, Handler>>>> {
    return {
      'passportapi.115.com': {
        'GET /app/1.0/web/1.0/check/sso': (call) =>
          this.isSignedIn(call)
            ? { state: 0, data: { user_id: Number(this.id), expire: Math.floor(Date.now() / 1000) + 86_400 } }
            : { state: 1, code: 99, errno: 99, error: '请重新登录', message: '请重新登录' },
        ...Object.fromEntries(
          [...kinds, 'linux', 'mac', 'windows'].map((kind) => [
            `POST /app/1.0/${kind}/1.0/login/qrcode`,
            (call: Call) => this.#exchange(call, kind),
          ]),
        ),
      },
      'my.115.com': {
        'GET /': (call) => this.#user(call),
      },
      'qrcodeapi.115.com': {
        'GET /api/1.0/web/1.0/token': () => this.#beginCode(),
        'GET /api/1.0/web/1.0/qrcode': () =>
          new Answer(Buffer.from('89504e470d0a1a0a', 'hex'), 200, { 'content-type': 'image/png' }),
        'GET /get/status/': (call) => this.#codeStatus(call),
      },
      'appversion.115.com': {
        'GET /1/web/1.0/api/chrome': () => ({ state: true, data: { win: { version_code: '35.6.0.3' } } }),
      },
    }
  }

  #user(call: Call): unknown {
    const action = call.query.get('ac')
    if (action === 'status') return { state: this.isSignedIn(call) }
    if (action !== 'nav') return new Answer('404', 404)
    this.assertSignedIn(call)
    return { state: true, data: { user_id: Number(this.id), user_name: 'ann', vip: 1 } }
  }

  #beginCode(): unknown {
    const uid = randomBytes(20).toString('hex')
    const code = { time: Math.floor(Date.now() / 1000), sign: randomBytes(20).toString('hex'), status: 0 }
    this.#codes.set(uid, code)
    return {
      state: 1,
      code: 0,
      data: { uid, time: code.time, sign: code.sign, qrcode: `https://115.com/scan/dg-${uid}` },
    }
  }

  #codeStatus({ query }: Call): unknown {
    const code = this.#codes.get(query.get('uid') ?? '')
    const isRight = code?.sign === query.get('sign') && String(code.time) === query.get('time')
    if (!code || !isRight) return { state: 0, code: 40199002, message: 'key invalid' }
    // No data: nothing has happened yet.
    return { state: 1, code: 0, message: '', data: code.status === 0 ? {} : { status: code.status, msg: '' } }
  }

  #exchange({ form }: Call, kind: string): unknown {
    if (!kinds.includes(kind)) return { state: 0, errno: 0, code: 0, error: withdrawn, message: withdrawn }
    const uid = form.get('account') ?? ''
    const code = this.#codes.get(uid)
    if (form.get('app') !== kind) return { state: 0, errno: 40100000, code: 40100000, error: '参数错误！' }
    if (code?.status !== 2) return { state: 0, errno: 40199002, code: 40199002, error: '二维码已失效' }
    this.#codes.delete(uid)
    const text = this.signIn(kind)
    const pairs = text.split('; ').map((pair) => pair.split('='))
    const body = {
      state: 1,
      code: 0,
      errno: 0,
      error: '',
      data: { user_id: Number(this.id), cookie: Object.fromEntries(pairs) as unknown },
    }
    const headers = {
      'content-type': 'application/json',
      'set-cookie': text
        .split('; ')
        .map((pair) => `${pair}; expires=Fri, 31-Dec-2027 23:59:59 GMT; path=/; domain=.115.com; httponly`),
    }
    return new Answer(JSON.stringify(body), 200, headers)
  }
}
