from slackbot.cli import main

main()
