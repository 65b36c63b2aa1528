// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// Stands in for a price feed of Chainlink (AggregatorV3Interface), and for the OP stack's oracle of data fees.
contract TestFeed {
    uint8 public constant decimals = 8;
    int256 public price;
    uint256 public updatedAt;
    uint256 public dataFee;

    function set(int256 price_, uint256 updatedAt_, uint256 dataFee_) external {
        (price, updatedAt, dataFee) = (price_, updatedAt_, dataFee_);
    }

    function latestRoundData() external view returns (uint80, int256, uint256, uint256, uint80) {
        return (1, price, updatedAt, updatedAt, 1);
    }

    function getL1Fee(bytes calldata data) external view returns (uint256) {
        return data.length == 0 ? 0 : dataFee;
    }
}
