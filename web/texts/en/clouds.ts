/** The drivers of cloud drives. */

const cookie115 = {
  label: 'Cookie',
  help: 'Sign in at 115.com, open the developer tools of the browser (F12), and copy the header Cookie of a request to webapi.115.com.',
}
const qrCode115 = {
  qrcode_token: {
    label: 'uid of a QR code',
    help: 'Instead of the cookie: of a code that the app has scanned and confirmed. It can be used once.',
  },
  qrcode_source: {
    label: 'Kind of device',
    help: 'Which one signs in by the QR code. The present sign-in of the same kind ends: choose one that you do not use.',
  },
}
const callsPerSecond = { label: 'Calls per second', help: '115 blocks accounts that make many. 0: no limit.' }
const entriesPerCall = {
  label: 'Entries of one call',
  help: 'How much of a folder is asked for at once, at most 1150.',
}
const folder115 = {
  label: 'Folder',
  help: 'The number after cid= in its address at 115.com. 0 is the whole drive.',
}
const order = {
  order_by: {
    label: 'Order of listings',
    help: 'As the service lists a folder, if the storage has no order of its own.',
  },
  order_direction: { label: 'Direction of listings', help: 'Upwards is from A to Z, or from small to large.' },
}
const quark = {
  cookie: {
    label: 'Cookie',
    help: 'Sign in with Chrome or Edge, open the developer tools (F12), and copy the header Cookie of a request to drive.quark.cn or pc-api.uc.cn.',
  },
  root_folder_id: {
    label: 'Folder',
    help: 'Its id, which is in the address of the page that shows it. 0 is the whole drive.',
  },
  ...order,
  only_list_video_file: { label: 'Only videos', help: 'Listings show folders and videos, and nothing else.' },
}

export default {
  clouds: {
    '115 Cloud': {
      about: 'Shows your drive at 115, as its web site does.',
      fields: {
        cookie: cookie115,
        root_folder_id: folder115,
        ...qrCode115,
        page_size: entriesPerCall,
        limit_rate: callsPerSecond,
      },
    },
    '115 Share': {
      about: 'Shows what somebody shares with you at 115, to read.',
      fields: {
        share_code: { label: 'Share', help: 'The id in its link: what follows https://115.com/s/.' },
        receive_code: { label: 'Code of the share', help: 'What follows password= in its link.' },
        cookie: cookie115,
        root_folder_id: { label: 'Folder', help: 'The id of a folder of the share. Empty: all of it.' },
        ...qrCode115,
        page_size: { label: 'Entries of one call', help: 'How much of a folder is asked for at once, at most 200.' },
        limit_rate: callsPerSecond,
      },
    },
    '115 Open': {
      about: 'Shows your drive at 115, by its official API for applications.',
      fields: {
        access_token: {
          label: 'Access token',
          help: 'What an application of 115 shows after you have scanned its code with the app.',
        },
        refresh_token: {
          label: 'Refresh token',
          help: 'Shown beside the access token. It can be used once: no other program may have it.',
        },
        root_folder_id: folder115,
        ...order,
        page_size: entriesPerCall,
        limit_rate: callsPerSecond,
      },
    },
    AliyundriveOpen: {
      about: 'Shows your drive at Aliyundrive (alipan), by its API for applications.',
      fields: {
        refresh_token: {
          label: 'Refresh token',
          help: 'Sign in with Aliyundrive at https://api.oplist.org and copy it. It can be used once: no other program may have it.',
        },
        drive_type: {
          label: 'Drive',
          help: 'Which of the drives of your account the storage shows.',
        },
        root_folder_id: {
          label: 'Folder',
          help: 'Its id, at the end of its address at alipan.com. root is the whole drive.',
        },
        remove_way: {
          label: 'Removed files',
          help: 'Whether they go to the recycle bin of Aliyundrive.',
        },
        ...order,
        client_id: {
          label: 'ID of an application of yours',
          help: 'With one, no other service sees your tokens. Aliyundrive gives it to developers.',
        },
        client_secret: { label: 'Secret of that application', help: 'Given together with its ID.' },
        use_online_api: {
          label: 'Renew tokens by a service',
          help: 'By the one below, if you have no application. It sees the tokens of your account.',
        },
        api_url_address: { label: 'Address of that service', help: 'The one at which you got the refresh token.' },
        alipan_type: { label: 'Kind of sign-in', help: '“For televisions” if you signed in that way at that service.' },
        oauth_token_url: { label: 'Other service', help: 'Renews tokens if the field above is off.' },
        rapid_upload: {
          label: 'Skip known files',
          help: 'Files that Aliyundrive has already are not sent. Uploads are stored on this server first.',
        },
        internal_upload: {
          label: 'Internal network',
          help: 'Only if this server is at Aliyun in Beijing: uploads use the internal network, and are not encrypted.',
        },
        livp_download_format: { label: 'Live photos', help: 'What a download of one is: the picture, or the film.' },
        AccessToken: { label: 'Access token', help: 'Not needed. It is used until Aliyundrive refuses it.' },
      },
    },
    Quark: {
      about: 'Shows your drive at Quark (pan.quark.cn).',
      fields: {
        ...quark,
        use_transcoding_address: {
          label: 'Transcoded videos',
          help: 'Clients that download from Quark itself get videos that play more easily, and are smaller.',
        },
      },
    },
    UC: { about: 'Shows your drive at UC (drive.uc.cn).', fields: quark },
  },
}
