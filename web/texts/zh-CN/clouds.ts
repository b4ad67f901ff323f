/** The drivers of cloud drives. */
import type { Translation } from '../texts.ts'

const cookie115 = {
  label: '登录 Cookie',
  help: '在 115.com 登录后，打开浏览器的开发者工具（F12），复制发往 webapi.115.com 的请求中的 Cookie 标头。',
}
const qrCode115 = {
  qrcode_token: { label: '二维码的 uid', help: '可以代替 Cookie：用 App 扫描并确认过的二维码的 uid，只能使用一次。' },
  qrcode_source: {
    label: '设备类型',
    help: '用二维码登录的设备。同类设备的现有登录会失效，请选择您不使用的类型。',
  },
}
const callsPerSecond = { label: '每秒请求数', help: '115 会限制请求过多的账号。0 表示不限制。' }
const entriesPerCall = { label: '每次请求的项数', help: '列出文件夹时每次请求多少项，最多 1150。' }
const folder115 = { label: '文件夹', help: '文件夹在 115.com 的地址中 cid= 之后的数字。0 表示整个网盘。' }
const order = {
  order_by: { label: '列表顺序', help: '如果存储没有设置排序方式，则使用网盘的这种顺序。' },
  order_direction: { label: '列表方向', help: '升序为从 A 到 Z，或从小到大。' },
}
const quark = {
  cookie: {
    label: '登录 Cookie',
    help: '用 Chrome 或 Edge 登录后，打开开发者工具（F12），复制发往 drive.quark.cn 或 pc-api.uc.cn 的请求中的 Cookie 标头。',
  },
  root_folder_id: { label: '文件夹', help: '文件夹的 ID，可以在显示该文件夹的网页地址中找到。0 表示整个网盘。' },
  ...order,
  only_list_video_file: { label: '只显示视频', help: '只列出文件夹和视频。' },
}

export default {
  clouds: {
    '115 Cloud': {
      about: '显示您的 115 网盘，使用其网站的接口。',
      fields: {
        cookie: cookie115,
        root_folder_id: folder115,
        ...qrCode115,
        page_size: entriesPerCall,
        limit_rate: callsPerSecond,
      },
    },
    '115 Share': {
      about: '显示他人通过 115 分享给您的文件，只能读取。',
      fields: {
        share_code: { label: '分享', help: '分享链接中 https://115.com/s/ 之后的部分。' },
        receive_code: { label: '提取码', help: '分享链接中 password= 之后的部分。' },
        cookie: cookie115,
        root_folder_id: { label: '文件夹', help: '分享中某个文件夹的 ID。留空则显示整个分享。' },
        ...qrCode115,
        page_size: { label: '每次请求的项数', help: '列出文件夹时每次请求多少项，最多 200。' },
        limit_rate: callsPerSecond,
      },
    },
    '115 Open': {
      about: '显示您的 115 网盘，使用官方的开放接口。',
      fields: {
        access_token: { label: '访问令牌', help: '用 115 App 扫描第三方应用的二维码并授权后显示的访问令牌。' },
        refresh_token: { label: '刷新令牌', help: '与访问令牌一起显示，只能使用一次，不能同时供其他程序使用。' },
        root_folder_id: folder115,
        ...order,
        page_size: entriesPerCall,
        limit_rate: callsPerSecond,
      },
    },
    AliyundriveOpen: {
      about: '显示您的阿里云盘，使用官方的开放接口。',
      fields: {
        refresh_token: {
          label: '刷新令牌',
          help: '在 https://api.oplist.org 用阿里云盘登录后复制。只能使用一次，不能同时供其他程序使用。',
        },
        drive_type: { label: '网盘', help: '显示账号的哪个网盘。' },
        root_folder_id: {
          label: '文件夹',
          help: '文件夹的 ID，在 alipan.com 的地址末尾。root 表示整个网盘。',
        },
        remove_way: { label: '删除的文件', help: '是否移到阿里云盘的回收站。' },
        ...order,
        client_id: {
          label: '您的应用的 ID',
          help: '填写后，其他服务不会看到您的令牌。由阿里云盘提供给开发者。',
        },
        client_secret: { label: '应用的密钥', help: '与应用的 ID 一起提供。' },
        use_online_api: {
          label: '通过服务刷新令牌',
          help: '如果没有自己的应用，则使用下面的服务。该服务会看到您账号的令牌。',
        },
        api_url_address: { label: '该服务的地址', help: '您获取刷新令牌的服务。' },
        alipan_type: { label: '登录类型', help: '如果您在该服务中使用电视端登录，请选择“电视端”。' },
        oauth_token_url: { label: '其他服务', help: '关闭“通过服务刷新令牌”后，使用此服务刷新令牌。' },
        rapid_upload: {
          label: '秒传',
          help: '不发送阿里云盘已有的文件。上传的文件会先保存在本服务器上。',
        },
        internal_upload: {
          label: '内网上传',
          help: '仅适用于位于阿里云北京区域的服务器：通过内网上传，不加密。',
        },
        livp_download_format: { label: '实况照片', help: '下载实况照片时得到图片还是视频。' },
        AccessToken: { label: '访问令牌', help: '不需要填写。填写后会一直使用，直到阿里云盘拒绝它。' },
      },
    },
    Quark: {
      about: '显示您的夸克网盘（pan.quark.cn）。',
      fields: {
        ...quark,
        use_transcoding_address: {
          label: '转码视频',
          help: '直接从夸克下载的客户端会得到转码后的视频，更容易播放，文件也更小。',
        },
      },
    },
    UC: { about: '显示您的 UC 网盘（drive.uc.cn）。', fields: quark },
  },
} satisfies Translation<'clouds'>
