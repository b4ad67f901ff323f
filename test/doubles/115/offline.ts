/** Downloads that 115 makes itself: `lixian.115.com`. */
import { createHash } from 'node:crypto'
import type { Content } from '../contents.js'
import type { Account } from './account.js'
import { textField, type Downloads } from './downloads.js'
import type { Drive } from './drive.js'
import { seconds } from './files.js'
import { Refusal, type Call, type Handler } from './http-routes.js'

interface OfflineTask {
  readonly hash: string
  readonly url: string
  readonly folder: string
  readonly added: number
  name: string
  size: number
  /** -1 failed, 0 waiting, 1 running, 2 done. */
  status: number
  percent: number
  fileId: string
}

/** Statuses of the tasks that each value of `flag` clears; undefined: all. */
const cleared: Readonly<Record<string, readonly number[] | undefined>> = {
  0: [2],
  1: undefined,
  2: [-1],
  3: [0, 1],
  4: [2],
  5: undefined,
}

export class Offline {
  /** Tasks that may still be added. */
  quota = 1500
  demandsCaptcha = false
  /** Tasks of one page. */
  pageSize = 30
  /** The tasks, newest first. */
  tasks: OfflineTask[] = []

  constructor(
    private readonly account: Account,
    private readonly drive: Drive,
    private readonly downloads: Downloads,
  ) {}

  /** The download of a URL makes progress. */
  progress(url: string, percent: number): void {
    Object.assign(this.#task(url), { status: 1, percent })
  }

  /** The download of a URL ends with this file. */
  finish(url: string, name: string, content: Content): void {
    const task = this.#task(url)
    const { id } = this.drive.add(task.folder, name, content)
    Object.assign(task, { status: 2, percent: 100, name, size: content.size, fileId: id })
  }

  fail(url: string): void {
    this.#task(url).status = -1
  }

  routes(): Readonly<Record<string, Readonly<Record<string, Handler>>>> {
    return {
      'lixian.115.com': {
        'POST /lixianssp/': (call) => {
          this.account.assertSignedIn(call)
          if (call.query.get('ac') !== 'add_task_urls') throw new Refusal(990002, '参数错误。')
          return this.downloads.sealed(call, (payload) => ({ data: this.#add(payload) }))
        },
        'POST /lixian/': (call) => {
          this.account.assertSignedIn(call)
          return this.#manage(call)
        },
      },
    }
  }

  #add(payload: unknown): unknown {
    const urls: string[] = []
    for (let at = 0; textField(payload, `url[${at}]`) !== ''; at++) urls.push(textField(payload, `url[${at}]`))
    const folder = textField(payload, 'wp_path_id')
    const isValid = textField(payload, 'ac') === 'add_task_urls' && textField(payload, 'uid') === this.account.id
    if (!isValid || textField(payload, 'app_ver') === '' || urls.length === 0 || !this.drive.isFolder(folder)) {
      throw new Refusal(990002, '参数错误。')
    }
    if (this.demandsCaptcha) throw new Refusal(911, '请验证账号')
    const result = urls.map((url) => this.#addOne(url, folder))
    const failed = result.find(({ errcode }) => errcode !== 0)
    return {
      state: failed === undefined,
      errcode: failed?.errcode ?? 0,
      errno: failed?.errcode ?? 0,
      error_msg: failed?.error_msg ?? '',
      result,
    }
  }

  #addOne(url: string, folder: string) {
    const hash = createHash('sha1').update(url).digest('hex')
    const refuse = (errcode: number, error_msg: string) => ({ state: false, errcode, error_msg, info_hash: hash, url })
    if (this.quota <= 0) return refuse(10010, '配额已用完')
    if (!/^(?:https?|ftp|ed2k|magnet):/.test(url)) return refuse(10004, '链接错误')
    if (this.tasks.some((task) => task.hash === hash)) return refuse(10008, '任务已存在')
    this.quota--
    const name = url.slice(url.lastIndexOf('/') + 1)
    const task = { hash, url, folder, added: Date.now(), name, size: 0, status: 0, percent: 0, fileId: '' }
    this.tasks.unshift(task)
    return { state: true, errcode: 0, error_msg: '', info_hash: hash, url }
  }

  #manage({ query, form }: Call): unknown {
    if (query.get('ct') !== 'lixian') throw new Refusal(990002, '参数错误。')
    switch (query.get('ac')) {
      case 'task_lists':
        return this.#list(Math.max(1, Number(query.get('page') ?? 1)))
      case 'task_del':
        return this.#delete(form)
      case 'task_clear':
        return this.#clear(form.get('flag') ?? '0')
      default:
        throw new Refusal(990002, '参数错误。')
    }
  }

  #list(page: number): unknown {
    const tasks = this.tasks.slice((page - 1) * this.pageSize, page * this.pageSize).map((task) => ({
      ...{ info_hash: task.hash, name: task.name, size: String(task.size), url: task.url, status: task.status },
      ...{
        add_time: seconds(task.added),
        last_update: seconds(Date.now()),
        percentDone: task.percent,
        rateDownload: 0,
      },
      ...{ peers: 0, left_time: 0, file_id: task.fileId, delete_file_id: task.fileId, wp_path_id: task.folder },
    }))
    const count = this.tasks.length
    const pages = Math.max(1, Math.ceil(count / this.pageSize))
    return { state: true, errno: 0, page, page_count: pages, count, total: String(count), quota: this.quota, tasks }
  }

  #delete(form: URLSearchParams): unknown {
    const hashes = [...form].filter(([name]) => /^hash\[\d+\]$/.test(name)).map(([, hash]) => hash)
    this.#removeTasks((task) => hashes.includes(task.hash), form.get('flag') === '1')
    return { state: true, errno: 0, errcode: 0 }
  }

  #clear(flag: string): unknown {
    if (!(flag in cleared)) throw new Refusal(990002, '参数错误。')
    const statuses = cleared[flag]
    this.#removeTasks((task) => !statuses || statuses.includes(task.status), ['4', '5'].includes(flag))
    return { state: true, errno: 0 }
  }

  #removeTasks(which: (task: OfflineTask) => boolean, withFiles: boolean): void {
    for (const { fileId } of withFiles ? this.tasks.filter(which) : []) {
      const item = this.drive.get(fileId)
      if (item) this.drive.remove(item)
    }
    this.tasks = this.tasks.filter((task) => !which(task))
  }

  #task(url: string): OfflineTask {
    const task = this.tasks.find((each) => each.url === url)
    if (!task) throw new Error(`no download of ${url}`)
    return task
  }
}
