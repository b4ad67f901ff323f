/** The answers of the 115 Open double, with what is odd about them. */
import type { ServerResponse } from 'node:http'

/** The vendor refuses a call with this code. */
export class Refusal extends Error {
  constructor(
    readonly code: number,
    message: string,
  ) {
    super(message)
  }
}

export const refusals = {
  parameters: () => new Refusal(40100000, '参数错误'),
  accessToken: () => new Refusal(40140125, 'access_token 无效或已过期'),
  refreshToken: () => new Refusal(40140116, 'refresh_token 无效'),
  missing: () => new Refusal(430004, '文件（夹）不存在或已删除。'),
  exists: () => new Refusal(20004, '该目录名称已存在。'),
  pickCode: () => new Refusal(50003, '文件不存在或已删除'),
  intoItself: () => new Refusal(800006, '不能将文件移动到自身或其子目录下'),
  copyIntoItself: () => new Refusal(91002, '不能将文件复制到自身或其子目录下'),
  proof: () => new Refusal(10002, '校验失败'),
  linkExists: () => new Refusal(10008, '任务已存在，请勿输入重复的链接地址'),
  badLink: () => new Refusal(10004, '错误的链接'),
  unknownCall: () => new Refusal(404, 'not found'),
}

const numberMark = 'number:'

/** An integer of any length as a number of JSON. */
export function jsonNumber(digits: string): string {
  return numberMark + digits
}

/** A number as the vendor writes it: often as a text. */
export function asNumberOrText(value: number): number | string {
  return value % 2 === 0 ? value : String(value)
}

export function answer(response: ServerResponse, value: object): void {
  const text = JSON.stringify(value).replaceAll(new RegExp(`"${numberMark}(\\d+)"`, 'g'), '$1')
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(text)
}

/** What the vendor answers to a call that it has done. `beside`: further keys beside `data`. */
export function answerDone(response: ServerResponse, data: unknown, beside: object = {}): void {
  answer(response, { state: true, message: '', code: 0, data, ...beside })
}

export function answerRefusal(response: ServerResponse, { code, message }: Refusal): void {
  answer(response, { state: false, message, code, data: [] })
}
