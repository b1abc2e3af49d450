"""The interventions of the position study: does training on reflection or on entropy help a draft?"""
